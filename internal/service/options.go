package service

import (
	"log/slog"

	"turnstile/internal/config"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
)

// Options converts the settings to the engine's options.
func Options(s config.Worker, log *slog.Logger) worker.Options {
	o := worker.Options{
		Queue: protocol.Config{
			SentinelTTL: s.SentinelTTL,
			Agent:       string(s.Agent),
			Programs:    s.RunsPrograms(),
			Line: session.QueueSettings{
				Mode: s.BusyMode, Debounce: session.Millis(s.CollectWindow), Cap: s.FollowupCap, Drop: s.FollowupDrop,
			},
			Limits:          s.Limits(),
			LineCap:         s.LineCap,
			StuckLimit:      s.StuckLimit,
			CrashPolicy:     protocol.CrashPolicy(s.CrashPolicy),
			Retention:       s.Retention,
			EventsCap:       s.EventsCap,
			EventsBytes:     s.EventsBytes,
			TranscriptCap:   s.TranscriptCap,
			TranscriptBytes: s.TranscriptBytes,
			TranscriptTTL:   s.TranscriptTTL,
			SessionTTL:      s.SessionTTL,
			ArchiveTTL:      s.ArchiveTTL,
			ListIdle:        s.ListIdle,
			RecoveryRate:    float64(s.RecoveryRate),
		},
		Concurrency:   s.Concurrency,
		AgentTimeout:  s.AgentTimeout,
		AskTimeout:    s.AskTimeout,
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
		o.WarmAgents = -1 // none; in worker.Options 0 means the default
	}
	if o.AskTimeout == 0 {
		o.AskTimeout = -1 // the same
	}
	return o
}
