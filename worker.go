package turnstile

import (
	"context"
	"errors"
	"os"

	"turnstile/internal/config"
	"turnstile/internal/engine"
	"turnstile/internal/process/guardian"
	"turnstile/internal/service"
	"turnstile/pkg/agent"
)

// Init does what a worker's process has to do before anything else. Call it first in main.
// A worker starts programs of an agent through its own executable, as their guardian: in
// such a process Init does the guardian's work and does not return. On Linux it also keeps
// other programs of the same user from reading this one's memory and environment.
func Init() { guardian.InitWorker() }

// RunWorker runs an agent's turns until a signal or the end of ctx tells it to stop. It has
// all that the program cmd/worker has, but for the choice of the agent:
//
//   - settings from the environment (docs/settings.md): REDIS_URL, TURNSTILE_CONCURRENCY,
//     TURNSTILE_DRAIN_TIMEOUT and the others; TURNSTILE_AGENT is not read,
//   - /healthz, /readyz, /metrics and asynqmon, if TURNSTILE_HTTP_ADDR is set,
//   - a log on stderr,
//   - signals: the first SIGTERM, SIGINT or SIGHUP drains, a second one cuts the drain
//     short, a third one returns at once. The end of ctx is a first SIGTERM.
//
// The error is nil after a drain, ErrRestart after the drain of a SIGHUP, and ErrAbandoned
// after a third signal. Anything else is a wrong setting or a start that failed; ExitCode
// tells them apart.
func RunWorker(ctx context.Context, a agent.Agent) error {
	settings, err := config.LoadWorker(os.Environ(), config.Options{NoAgent: true})
	if err != nil {
		return err
	}
	log := service.NewLogger(os.Stderr, settings)
	end, release := service.WatchSignals(ctx, engine.ReasonRestart)
	defer release()
	s, err := service.Start(end.Asked, service.Config{Settings: settings, Agent: a, Logger: log})
	if err != nil {
		return end.Unless(err)
	}
	<-end.Asked.Done()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.Worker.Drain(end.Cut, end.Reason())
	}()
	select {
	case <-drained:
		s.Stop(end.Now)
		return end.Done()
	case <-end.Now.Done():
		return ErrAbandoned // what the worker uses must not be taken from under it
	}
}

// How RunWorker returns after a signal.
var (
	// ErrRestart is returned after the drain of a SIGHUP: the supervisor is to start the
	// process again.
	ErrRestart = service.ErrRestart

	// ErrAbandoned is returned after a third signal. The worker is left as it is, for the
	// process to end: its turns run again when their leases have expired.
	ErrAbandoned = service.ErrAbandoned
)

// ExitCode is the exit code that cmd/worker has for an error of RunWorker: 0 for nil, 2 for
// a wrong setting, 75 for ErrRestart, and 1 for everything else.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrRestart):
		return 75
	case errors.Is(err, config.ErrInvalid):
		return 2
	}
	return 1
}
