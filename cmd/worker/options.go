package main

import (
	"fmt"
	"log/slog"

	"turnstile/internal/config"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/followup"
	"turnstile/pkg/sessionqueue"
	"turnstile/pkg/worker"
)

// options are the settings in the worker's own terms.
func options(s config.Worker, log *slog.Logger) worker.Options {
	o := worker.Options{
		Queue: sessionqueue.Config{
			SentinelTTL: s.SentinelTTL,
			Line: followup.Settings{
				Mode: s.BusyMode, Debounce: followup.Millis(s.CollectWindow), Cap: s.FollowupCap, Drop: s.FollowupDrop,
			},
			StuckLimit:    s.StuckLimit,
			CrashPolicy:   sessionqueue.CrashPolicy(s.CrashPolicy),
			Retention:     s.Retention,
			EventsCap:     s.EventsCap,
			TranscriptCap: s.TranscriptCap,
			TranscriptTTL: s.TranscriptTTL,
			SessionTTL:    s.SessionTTL,
			ArchiveTTL:    s.ArchiveTTL,
			RecoveryRate:  float64(s.RecoveryRate),
		},
		Concurrency:   s.Concurrency,
		AgentTimeout:  s.AgentTimeout,
		DrainTimeout:  s.DrainTimeout,
		MaxAttempts:   s.MaxAttempts,
		RetryBackoff:  s.RetryBackoff,
		SweepInterval: s.SweepInterval,
		ShareTurns:    s.TurnShare.Messages,
		ShareTime:     s.TurnShare.Time,
		MessageMaxAge: s.MessageMaxAge,
		WarmAgents:    s.WarmAgents,
		WarmTTL:       s.WarmTTL,

		CheckpointInterval: s.CheckpointInterval,
		ResumeFreshness:    s.ResumeFreshness,

		Maintenance: true,
		Logger:      log,
	}
	if o.WarmAgents == 0 {
		o.WarmAgents = -1 // none: there 0 means the default
	}
	return o
}

// agentConfig is what the agent exec is told.
func agentConfig(s config.Worker, log *slog.Logger) exec.Config {
	c := exec.Config{
		Command: s.Command,
		Format:  exec.Format(s.AgentFormat),
		Env:     s.AgentEnv,
		Grace:   s.InterruptGrace,
		Logger:  log,
	}
	if c.Grace == 0 {
		c.Grace = -1 // at once: there 0 means the default
	}
	return c
}

// newAgent makes the agent. A command that is not there is a wrong setting now,
// while somebody looks.
func newAgent(s config.Worker, log *slog.Logger) (agent.Agent, error) {
	if s.Agent == config.AgentEcho {
		return echo.New(), nil
	}
	a, err := exec.New(agentConfig(s, log))
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w TURNSTILE_AGENT_COMMAND: %w", config.ErrInvalid, err)
	}
	return a, nil
}
