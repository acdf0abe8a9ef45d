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

// checkNamed checks that the program, files and working directory in the agent's settings exist.
// Otherwise every turn would fail; here a missing one is reported at the start as an invalid
// setting. The error joins all problems. Settings that config refused are skipped.
func checkNamed(s config.Worker) error {
	problems := []error{checkAgent(s)}
	for _, n := range s.Agents {
		if err := checkAgent(s.As(n)); err != nil {
			problems = append(problems, n.Problem(err))
		}
	}
	return errors.Join(problems...)
}

func checkAgent(s config.Worker) error {
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

// checkProgram checks that the program of the agent's command can be found.
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
		hint = "" // the error has a hint already
	}
	return fmt.Errorf("%w TURNSTILE_WORKSPACE_DIR=%q cannot be used: %w%s", config.ErrInvalid, s.WorkspaceDir, err, hint)
}
