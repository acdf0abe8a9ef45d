package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"turnstile/internal/config"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/acp"
	"turnstile/pkg/agent/cli"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/agent/openai"
)

// newAgent makes the agent. checkNamed checks that what it needs exists.
func newAgent(s config.Worker, log *slog.Logger) (agent.Agent, error) {
	switch s.Agent {
	case config.AgentEcho:
		return echo.New(), nil
	case config.AgentOpenAI:
		return newOpenAI(s, log)
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

func execConfig(s config.Worker, log *slog.Logger) exec.Config {
	return exec.Config{Command: s.Command, Format: exec.Format(s.AgentFormat), Env: s.AgentEnv, Grace: grace(s), Logger: log}
}

func acpConfig(s config.Worker, log *slog.Logger) acp.Config {
	return acp.Config{
		Command: s.Command, Env: s.AgentEnv, Grace: grace(s), Permissions: acp.Permissions(s.ACPPermissions),
		Workspace: s.WorkspaceDir, WorkspaceGroup: s.WorkspaceGroup.Number, Files: s.ACPFiles, Terminal: s.ACPTerminal, Logger: log,
	}
}

func presetConfig(s config.Worker, log *slog.Logger) cli.Config {
	return cli.Config{
		Command: s.Command, Model: s.Model, Env: s.AgentEnv, Workspace: s.WorkspaceDir, WorkspaceGroup: s.WorkspaceGroup.Number,
		Grace: grace(s), Logger: log,
	}
}

func openAIConfig(s config.Worker, log *slog.Logger) openai.Config {
	c := openai.Config{
		BaseURL: s.OpenAIBaseURL, Key: s.OpenAIKey, Model: s.Model, SystemPrompt: s.SystemPrompt, MaxTokens: s.MaxTokens,
		ContextTokens: s.ContextTokens, ToolRounds: s.ToolRounds, ToolTimeout: s.ToolTimeout, Grace: grace(s), Env: s.AgentEnv, Logger: log,
	}
	if s.Temperature.Set {
		c.Temperature = &s.Temperature.Value
	}
	return c
}

func newOpenAI(s config.Worker, log *slog.Logger) (agent.Agent, error) {
	c, err := openAIFiles(s, openAIConfig(s, log))
	if err != nil {
		return nil, err
	}
	a, err := openai.New(c)
	if err != nil {
		return nil, fmt.Errorf("%w TURNSTILE_AGENT=openai: %w", config.ErrInvalid, err)
	}
	return a, nil
}

// openAIFiles reads the files that the settings name. The error joins all problems.
func openAIFiles(s config.Worker, c openai.Config) (openai.Config, error) {
	var problems []error
	if path := s.SystemPromptFile; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			problems = append(problems, fmt.Errorf("%w TURNSTILE_SYSTEM_PROMPT_FILE: %w", config.ErrInvalid, err))
		}
		c.SystemPrompt = strings.TrimSpace(string(text))
	}
	if path := s.ToolsFile; path != "" {
		var err error
		if c.Tools, err = openai.LoadTools(path); err != nil {
			problems = append(problems, fmt.Errorf("%w TURNSTILE_TOOLS_FILE: %w", config.ErrInvalid, err))
		}
	}
	return c, errors.Join(problems...)
}
