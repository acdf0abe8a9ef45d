package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"turnstile/internal/mcp"
	"turnstile/internal/program/config"
	"turnstile/internal/program/service"
	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/text/strictjson"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/acp"
	"turnstile/pkg/agent/cli"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/agent/model"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
)

// newAgents makes the agents: the one of the environment, nil if there is none, and those of the file.
func newAgents(s config.Worker, log *slog.Logger) (only agent.Agent, named []worker.NamedAgent, err error) {
	if s.Agent != "" && s.Runs(agents.Default) {
		if only, err = newAgent(s, log); err != nil {
			return nil, nil, err
		}
		only = service.Agent(s, only)
	}
	for _, n := range s.Agents {
		if !s.Runs(n.Name) {
			named = append(named, worker.NamedAgent{Name: n.Name, Sessions: n.Sessions})
			continue
		}
		own := s.As(n)
		a, err := newAgent(own, log.With("agent", n.Name))
		if err != nil {
			return nil, nil, n.Problem(err)
		}
		named = append(named, worker.NamedAgent{
			Name: n.Name, Sessions: n.Sessions, Agent: service.Agent(own, a),
			Timeout: n.AgentTimeout, AskTimeout: cmp.Or(n.AskTimeout, session.NoLimit), Approvers: n.Approvers,
		})
	}
	return only, named, nil
}

// newAgent makes the agent. checkNamed checks that its files and programs exist.
func newAgent(s config.Worker, log *slog.Logger) (agent.Agent, error) {
	if s.Isolation == config.Isolation(agent.IsolationConfined) && s.RunsPrograms() {
		log.Info("agents are confined; UDP, unix sockets by path, memory and disk are not: see docs/security.md")
	}
	if s.Agent != config.AgentModel && s.MCPFile != "" {
		if file, err := mcp.Load(s.MCPFile); err == nil && len(file.Ask) > 0 {
			log.Warn("ask of TURNSTILE_MCP_FILE is for the agent model only: this one asks by its own settings, if at all", "agent_kind", s.Agent)
		}
	}
	switch s.Agent {
	case config.AgentEcho:
		return echo.New(), nil
	case config.AgentModel:
		return newModel(s, log)
	case config.AgentACP:
		a, err := acp.New(acpConfig(s, log))
		return a, commandError(err)
	case config.AgentClaude, config.AgentCodex, config.AgentGemini:
		a, err := cli.New(cli.Kind(s.Agent), presetConfig(s, log))
		return a, commandError(err)
	}
	a, err := exec.New(execConfig(s, log))
	return a, commandError(err)
}

func commandError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w TURNSTILE_AGENT_COMMAND: %w", config.ErrInvalid, err)
}

// grace converts the setting for the agents, where 0 means the default.
func grace(s config.Worker) time.Duration {
	if s.InterruptGrace == 0 {
		return -1 // at once
	}
	return s.InterruptGrace
}

func isolation(s config.Worker) agent.Isolation {
	return agent.Isolation{
		Level: agent.IsolationLevel(s.Isolation), Agent: s.AgentName, Workspace: s.WorkspaceDir, WorkspaceGroup: s.WorkspaceGroup.Number,
		Read: s.ConfinedRead, Ports: s.ConfinedPorts.Connect, Listen: s.ConfinedPorts.Listen, Wrapper: s.Wrapper, Kill: s.WrapperKill,
	}
}

// environment is what the agent's programs get beside what all get.
func environment(s config.Worker) []string {
	env := slices.Concat(s.AgentEnv, s.AgentSet)
	for _, name := range s.AgentsOwn {
		env = append(env, "-"+name)
	}
	return env
}

func execConfig(s config.Worker, log *slog.Logger) exec.Config {
	return exec.Config{Command: s.Command, Format: exec.Format(s.AgentFormat), Env: environment(s), Isolation: isolation(s), Grace: grace(s), Logger: log}
}

func acpConfig(s config.Worker, log *slog.Logger) acp.Config {
	return acp.Config{
		Command: s.Command, Commands: s.UserCommands, Model: s.Model, Mode: s.ACPMode, Env: environment(s), Grace: grace(s), Permissions: acp.Permissions(s.ACPPermissions),
		Workspace: s.WorkspaceDir, WorkspaceGroup: s.WorkspaceGroup.Number, Files: s.ACPFiles, Terminal: s.ACPTerminal,
		Isolation: isolation(s), MCPFile: s.MCPFile, Logger: log,
	}
}

func presetConfig(s config.Worker, log *slog.Logger) cli.Config {
	return cli.Config{
		Command: s.Command, Commands: s.UserCommands, Model: s.Model, Env: environment(s), Ask: s.AskTools,
		Workspace: s.WorkspaceDir, WorkspaceGroup: s.WorkspaceGroup.Number, Isolation: isolation(s), Grace: grace(s), MCPFile: s.MCPFile, Logger: log,
	}
}

func modelConfig(s config.Worker, log *slog.Logger) model.Config {
	return model.Config{
		Provider: string(s.Provider), URL: s.ModelURL, Key: s.ModelKey, Model: s.Model, Isolation: isolation(s), Grace: grace(s), Env: environment(s), Logger: log,
		Instructable: s.Instruct, MCPFile: s.MCPFile,
	}
}

func newModel(s config.Worker, log *slog.Logger) (agent.Agent, error) {
	c, err := modelFiles(s, modelConfig(s, log))
	if err != nil {
		return nil, err
	}
	a, err := model.New(c)
	if err != nil {
		return nil, fmt.Errorf("%w TURNSTILE_AGENT=model: %w", config.ErrInvalid, err)
	}
	return a.KeepServers(), nil
}

// modelFiles reads the files that the settings name. The error joins all problems.
func modelFiles(s config.Worker, c model.Config) (model.Config, error) {
	var problems []error
	if path := s.ModelFile; path != "" {
		if err := readModel(path, &c); err != nil {
			problems = append(problems, fmt.Errorf("%w TURNSTILE_MODEL_FILE: %w", config.ErrInvalid, config.FileProblem(err)))
		}
	}
	if path := s.ToolsFile; path != "" {
		var err error
		if c.Tools, err = model.LoadTools(path); err != nil {
			problems = append(problems, fmt.Errorf("%w TURNSTILE_TOOLS_FILE: %w", config.ErrInvalid, config.FileProblem(err)))
		}
	}
	return c, errors.Join(problems...)
}

// leastContext is the least context_tokens of model: a request with less has no room for a
// message.
const leastContext = 100

// readModel reads TURNSTILE_MODEL_FILE. Missing fields keep their defaults.
func readModel(path string, c *model.Config) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var f struct {
		SystemPrompt  string        `json:"system_prompt"`
		Temperature   *float64      `json:"temperature"`
		MaxTokens     int           `json:"max_tokens"`
		Thinking      string        `json:"thinking"`
		ThinkTokens   int           `json:"thinking_tokens"`
		ContextTokens *int          `json:"context_tokens"`
		ImageBytes    int           `json:"image_bytes"`
		Compact       bool          `json:"compact"`
		ToolRounds    int           `json:"tool_rounds"`
		ToolTimeout   wire.Duration `json:"tool_timeout"`
	}
	var wrong *json.UnmarshalTypeError
	switch err := strictjson.DecodeNamed(data, &f); {
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Errorf("%s: it is not a JSON object", path)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	c.SystemPrompt, c.Temperature, c.MaxTokens = strings.TrimSpace(f.SystemPrompt), f.Temperature, f.MaxTokens
	c.ImageBytes, c.Compact, c.ToolRounds, c.ToolTimeout = f.ImageBytes, f.Compact, f.ToolRounds, time.Duration(f.ToolTimeout)
	c.Thinking, c.ThinkingTokens = f.Thinking, f.ThinkTokens
	switch {
	case f.Temperature != nil && !(*f.Temperature >= 0 && *f.Temperature <= 2):
		return fmt.Errorf("%s: temperature: use a number from 0 to 2", path)
	case f.MaxTokens < 0 || f.ImageBytes < 0 || f.ToolRounds < 0 || f.ToolTimeout < 0:
		return fmt.Errorf("%s: max_tokens, image_bytes, tool_rounds and tool_timeout: use 0, for the default, or more", path)
	case f.ContextTokens != nil && *f.ContextTokens < leastContext:
		return fmt.Errorf("%s: context_tokens: use at least %d", path, leastContext)
	case f.ContextTokens != nil:
		c.ContextTokens = *f.ContextTokens
	}
	return nil
}
