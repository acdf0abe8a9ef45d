package service

import (
	"cmp"
	"log/slog"
	"time"

	"turnstile/internal/program/config"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
)

// shortest replaces a 0 of the settings where 0 means the default in the worker's config.
const shortest = time.Nanosecond

// WorkerConfig converts the settings to the worker's config.
func WorkerConfig(s config.Worker, log *slog.Logger) worker.Config {
	return worker.Config{
		AgentName:    string(s.Agent),
		RunsPrograms: s.AnyRunsPrograms(),
		Concurrency:  s.Concurrency,
		Queue: session.QueueSettings{
			Mode: s.BusyMode, Debounce: session.Millis(s.CollectWindow), Cap: s.FollowupCap, Drop: s.FollowupDrop,
		},
		Limits: s.Limits(),
		Keep: worker.Keep{
			Results:         cmp.Or(s.Retention, shortest),
			Transcripts:     s.TranscriptTTL,
			Sessions:        s.SessionTTL,
			DeadLetters:     s.ArchiveTTL,
			TranscriptBytes: s.TranscriptBytes,
			EventBytes:      s.EventsBytes,
		},
		LeaseTTL:      s.SentinelTTL,
		AgentTimeout:  s.AgentTimeout,
		AskTimeout:    cmp.Or(s.AskTimeout, session.NoLimit),
		ParkAfter:     cmp.Or(s.ParkAfter, session.NoLimit),
		ParkedCap:     cmp.Or(s.ParkedCap, session.NoLimit),
		WaitingAgents: cmp.Or(s.WaitingAgents, -1),
		Approvers:     s.Approvers,
		DrainTimeout:  cmp.Or(s.DrainTimeout, shortest),
		MaxAttempts:   s.MaxAttempts,
		RetryBackoff:  s.RetryBackoff,
		MessageMaxAge: s.MessageMaxAge,
		StuckLimit:    s.StuckLimit,
		Crash:         worker.CrashPolicy(s.CrashPolicy),
		SweepInterval: s.SweepInterval,
		RecoveryRate:  float64(s.RecoveryRate),
		WarmAgents:    s.WarmAgents,
		WarmTTL:       s.WarmTTL,
		Logger:        log,
	}
}

// Agent returns an agent for the settings: without warm agents, the result is no agent.Warmer.
func Agent(s config.Worker, a agent.Agent) agent.Agent {
	if s.WarmAgents == 0 {
		return cold{a}
	}
	return a
}

// cold hides that an agent is an agent.Warmer.
type cold struct{ agent.Agent }

// Traits implements agent.Describer.
func (c cold) Traits() agent.Traits {
	if d, ok := c.Agent.(agent.Describer); ok {
		return d.Traits()
	}
	return agent.Traits{}
}
