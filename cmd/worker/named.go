package main

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"slices"
	"strings"

	"turnstile/internal/http/gateway"
	"turnstile/internal/mcp"
	"turnstile/internal/process/confine"
	"turnstile/internal/process/guardian"
	"turnstile/internal/process/workspace"
	"turnstile/internal/program/config"
	"turnstile/internal/protocol/agents"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/acp"
	"turnstile/pkg/agent/cli"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/agent/model"
	"turnstile/pkg/session"
)

// checkNamed checks that the program, files and working directory in the agent's settings exist.
// Otherwise every turn would fail; here a missing one is reported at the start as an invalid
// setting. The error joins all problems. Settings that config refused are skipped.
func checkNamed(s config.Worker) error {
	known, err := tokenNames(s.TokensFile)
	problems := []error{err, checkGuardian(s)}
	if s.Runs(agents.Default) {
		problems = append(problems, checkAgent(s, known))
	}
	for _, n := range s.Agents {
		if !s.Runs(n.Name) {
			continue
		}
		if err := checkAgent(s.As(n), known); err != nil {
			problems = append(problems, n.Problem(err))
		}
	}
	return errors.Join(problems...)
}

// checkGuardian checks that the programs of agents can be started here.
func checkGuardian(s config.Worker) error {
	if !s.AnyRunsPrograms() {
		return nil
	}
	switch err := guardian.Check(); {
	case errors.Is(err, guardian.ErrKilled): // by the kernel, for want of memory: the next start may succeed
		return fmt.Errorf("the programs of agents cannot be started now: %w", err)
	case err != nil:
		return fmt.Errorf("%w TURNSTILE_AGENT: the programs of agents cannot be started here: %w", config.ErrInvalid, err)
	}
	return nil
}

// tokenNames reads the names of a gateway's tokens. nil: unknown.
func tokenNames(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	tokens, err := gateway.LoadTokens(path)
	if err != nil {
		return nil, fmt.Errorf("%w TURNSTILE_GATEWAY_TOKENS_FILE: %w", config.ErrInvalid, err)
	}
	return tokens.Names(), nil
}

// checkApprovers checks that somebody can be each approver: a token of the gateways, if these are known.
func checkApprovers(where string, approvers, known []string) error {
	for _, a := range approvers {
		name, _, _ := strings.Cut(a, "/")
		if a == session.ApproveSender || a == session.ApproveAnyone || known == nil || slices.ContainsFunc(known, func(token string) bool {
			return session.Question{Approvers: []string{name}}.MayDecide(token)
		}) {
			continue
		}
		return fmt.Errorf("%w %s: nobody is the approver %s: TURNSTILE_GATEWAY_TOKENS_FILE has no token %s: add it there, or name another approver", config.ErrInvalid, where, a, name)
	}
	return nil
}

// checkAgent checks an agent. known are the gateways' tokens, nil: unknown.
func checkAgent(s config.Worker, known []string) error {
	err := checkApprovers("TURNSTILE_APPROVERS", s.Approvers, known)
	workspace := false
	if s.MCPFile != "" && s.Agent != config.AgentEcho && s.Agent != config.AgentExec {
		err = errors.Join(err, checkServers(s, known))
	}
	switch s.Agent {
	case config.AgentModel:
		c, wrong := modelFiles(s, model.Config{})
		err = errors.Join(err, wrong)
		for _, t := range c.Tools {
			err = errors.Join(err, checkApprovers("TURNSTILE_TOOLS_FILE: tool "+t.Name, t.Approvers, known))
		}
	case config.AgentExec:
		err = errors.Join(err, checkProgram(s))
	case config.AgentACP, config.AgentClaude, config.AgentCodex, config.AgentGemini:
		err, workspace = errors.Join(err, checkProgram(s)), true
	default:
		return err // echo needs nothing
	}
	isolated := s.Isolation != config.Isolation(agent.IsolationNone) && s.RunsPrograms()
	if workspace || isolated {
		err = errors.Join(err, checkWorkspace(s))
	}
	if isolated {
		err = errors.Join(err, checkIsolation(s))
	}
	return err
}

// checkServers checks the agent's file of MCP servers.
func checkServers(s config.Worker, known []string) error {
	file, err := mcp.Load(s.MCPFile)
	if err != nil {
		return fmt.Errorf("%w TURNSTILE_MCP_FILE: %w", config.ErrInvalid, config.FileProblem(err))
	}
	for _, a := range file.Ask {
		err = errors.Join(err, checkApprovers("TURNSTILE_MCP_FILE: ask "+a.Tools, a.Approvers, known))
	}
	return err
}

// checkIsolation checks that the agent's programs can be isolated here.
func checkIsolation(s config.Worker) error {
	var problems []error
	wrong := func(name string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%w %s: %w", config.ErrInvalid, name, err))
		}
	}
	if s.Isolation == config.Isolation(agent.IsolationConfined) {
		wrong("TURNSTILE_ISOLATION="+string(s.Isolation), confine.Check())
	}
	for _, path := range s.ConfinedRead {
		_, err := os.Stat(path)
		wrong("TURNSTILE_CONFINED_READ", err)
	}
	for _, c := range []struct {
		name  string
		words config.Command
	}{{"TURNSTILE_WRAPPER", s.Wrapper}, {"TURNSTILE_WRAPPER_KILL", s.WrapperKill}} {
		if len(c.words) > 0 {
			_, err := osexec.LookPath(c.words[0])
			wrong(c.name, err)
		}
	}
	return errors.Join(problems...)
}

// checkProgram checks that the program of the agent's command can be found. With a wrapper it may be
// in a container.
func checkProgram(s config.Worker) error {
	var a interface{ Check() error }
	var err error
	switch {
	case s.Isolation == config.Isolation(agent.IsolationWrapper):
		return nil
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
