package turnstile

import (
	"context"
	"errors"
	"os"

	"turnstile/internal/config"
	"turnstile/internal/process/guardian"
	"turnstile/internal/service"
	"turnstile/pkg/agent"
)

// Init prepares a worker's process. Call it first in main. A worker starts an agent's programs
// through its own executable, which is then their guardian: in a guardian Init does not return.
//
// On Linux, Init also protects the process from its agents, which have the same user id:
//
//   - The process is not dumpable. Its environment, memory and files in /proc belong to root. There
//     is no core dump, and a debugger or profiler needs root's rights to attach. The package
//     net/http/pprof still works.
//   - The process is a subreaper. A process that outlives its agent and has killed its guardian
//     becomes this program's child. It is killed before the turn runs again. So is any other
//     process that becomes a child in this way, for example a daemon that one of the program's own
//     commands started. Children that the program starts itself are not touched, unless they call
//     setsid.
func Init() { guardian.InitWorker() }

// RunWorker runs an agent's turns until a signal comes or ctx ends, then drains. It has everything
// that the program cmd/worker has, except for the choice of the agent:
//
//   - settings from the environment (docs/settings.md): REDIS_URL, TURNSTILE_CONCURRENCY,
//     TURNSTILE_DRAIN_TIMEOUT and the others, but not TURNSTILE_AGENT
//   - /healthz, /readyz, /metrics and asynqmon, if TURNSTILE_HTTP_ADDR is set
//   - a log on stderr
//   - signals: the first SIGTERM, SIGINT or SIGHUP drains, the second ends the drain early, the
//     third makes RunWorker return at once. The end of ctx counts as a first SIGTERM
//
// It returns nil after a drain, ErrRestart after the drain of a SIGHUP, and ErrAbandoned after a
// third signal. Any other error is a wrong setting or a failed start; ExitCode tells them apart.
func RunWorker(ctx context.Context, a agent.Agent) error {
	settings, err := config.LoadWorker(os.Environ(), config.Options{NoAgent: true})
	if err != nil {
		return err
	}
	log := service.NewLogger(os.Stderr, settings)
	end, release := service.WatchSignals(ctx, service.Restart)
	defer release()
	s, err := service.Start(end, service.Config{Settings: settings, Agent: a, Logger: log})
	if err != nil {
		return end.Unless(err)
	}
	<-end.Requested.Done()
	select {
	case <-end.Drain(s.Worker):
		s.Stop(end.Now)
		return end.Done()
	case <-end.Now.Done():
		return ErrAbandoned // without s.Stop: turns may still use what it closes
	}
}

// Errors of RunWorker after a signal.
var (
	// ErrRestart: the worker has drained after a SIGHUP. Its supervisor should start it again.
	ErrRestart = service.ErrRestart

	// ErrAbandoned: a third signal came. Turns may still be running, so end the process. Other
	// workers run them again when their leases have expired.
	ErrAbandoned = service.ErrAbandoned
)

// ExitCode returns the exit code of cmd/worker for an error of RunWorker: 0 for nil, 2 for a wrong
// setting, 75 for ErrRestart, 1 for any other error.
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
