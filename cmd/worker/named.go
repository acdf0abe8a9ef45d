package main

import (
	"errors"
	"fmt"

	"turnstile/internal/config"
	"turnstile/internal/workspace"
	"turnstile/pkg/agent/acp"
	"turnstile/pkg/agent/cli"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/agent/openai"
)

// checkNamed looks for what the settings of the agent name: its program, its files,
// the directory that it works in. What is not there would fail every turn; it is a
// wrong setting now, while somebody looks. The error joins all problems. Settings
// that are wrong by themselves are passed over: config has told of them.
func checkNamed(s config.Worker) error {
	switch s.Agent {
	case config.AgentOpenAI:
		_, err := openAIFiles(s, openai.Config{})
		return err
	case config.AgentExec:
		return checkProgram(s)
	case config.AgentACP, config.AgentClaude, config.AgentCodex, config.AgentGemini:
		return errors.Join(checkProgram(s), checkWorkspace(s))
	}
	return nil // echo needs nothing
}

// checkProgram looks for the program of the agent's command.
func checkProgram(s config.Worker) error {
	var a interface{ Check() error }
	var err error
	switch {
	case s.Agent == config.AgentClaude || s.Agent == config.AgentCodex || s.Agent == config.AgentGemini:
		a, err = cli.New(cli.Kind(s.Agent), cli.Config{Command: s.Command})
	case len(s.Command) == 0:
		return nil
	case s.Agent == config.AgentACP:
		a, err = acp.New(acp.Config{Command: s.Command})
	default:
		a, err = exec.New(exec.Config{Command: s.Command})
	}
	if err == nil {
		err = a.Check()
	}
	return commandError(err)
}

func checkWorkspace(s config.Worker) error {
	if s.WorkspaceDir == "" {
		return nil
	}
	err := workspace.Root{Path: s.WorkspaceDir, Group: s.WorkspaceGroup.Number}.Check()
	if err == nil {
		return nil
	}
	hint := ": name a directory in which the worker may make others"
	if errors.Is(err, workspace.ErrUntrusted) {
		hint = "" // it has one
	}
	return fmt.Errorf("%w TURNSTILE_WORKSPACE_DIR=%q cannot be used: %w%s", config.ErrInvalid, s.WorkspaceDir, err, hint)
}
