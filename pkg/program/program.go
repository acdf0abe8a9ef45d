// Package program makes a worker a program: with settings from the environment, signals, a log on
// stderr, and an HTTP server for health, metrics and asynqmon. The program cmd/worker does the
// same, with a choice of agents. To run a worker inside a service with its own settings and
// signals, use package worker.
//
//	func main() {
//		program.Init()
//		program.Exit(program.Run(context.Background(), myAgent{}))
//	}
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"turnstile/internal/process/confine"
	"turnstile/internal/process/guardian"
	"turnstile/internal/program/config"
	"turnstile/internal/program/daemon"
	"turnstile/internal/program/operator"
	"turnstile/internal/program/service"
	"turnstile/internal/text/printable"
	"turnstile/pkg/agent"
)

// Init is the first call in main. A worker starts an agent's programs through its own executable,
// which is then their guardian: in a guardian Init does not return.
//
// On Linux, Init also protects the process from its agents, which have the same user id:
//
//   - The process is not dumpable. Its environment, memory and files in /proc belong to root. There
//     is no core dump, and a debugger or profiler needs root's rights to attach. The package
//     net/http/pprof still works.
//   - The process is a subreaper. A process that outlives its agent and has killed its guardian
//     becomes this program's child. It is killed before the turn runs again. So is any other
//     process that becomes a child in this way, for example a daemon of a command that the program
//     started. Children that the program starts itself are not touched, unless they call setsid.
func Init() {
	confine.Init()
	guardian.InitWorker()
}

// Run runs an agent's turns until a signal comes or ctx ends, then drains. It has everything that
// the program cmd/worker has, except for the choice of the agent:
//
//   - settings from the environment (docs/settings.md) or as flags of the program: REDIS_URL,
//     TURNSTILE_CONCURRENCY, TURNSTILE_DRAIN_TIMEOUT and the others, but not TURNSTILE_AGENT;
//     TURNSTILE_ISOLATION is refused
//   - --help, --version, and --dev, which starts a Redis
//   - the operators' commands of worker, such as ps, show, dead and forget, but not agents: then Run
//     returns at their end. Any other argument is an error. A program with arguments of its own
//     removes them from os.Args first
//   - /healthz, /readyz, /metrics and asynqmon, if TURNSTILE_HTTP_ADDR is set
//   - deliveries to webhooks, if TURNSTILE_DELIVER is set
//   - a log on stderr
//   - signals: the first SIGTERM, SIGINT or SIGHUP drains, the second ends the drain early, the
//     third makes Run return at once. The end of ctx counts as a first SIGTERM
//
// Nothing waits for the log: if nobody reads it, lines are left out. Package log, and so slog's
// default, writes there too, unless the program has changed that. What the program writes to
// os.Stdout or os.Stderr itself waits for its reader.
//
// It returns nil after a drain, but an error after that of a SIGHUP, which asks for a restart. End
// the process with Exit: after a third signal turns may still run, and other workers run them again
// when their leases have expired.
func Run(ctx context.Context, a agent.Agent) error {
	p := &operator.Program{Name: programName(), Help: fmt.Sprintf(helpText, programName()), Settings: config.ProgramSettings(), Environ: os.Environ(), Stdin: os.Stdin, Agent: ownAgent()}
	p.Work = func(ctx context.Context, flags map[string]string, dev bool) error {
		return work(ctx, a, arguments{flags, dev}, p.ErrOut)
	}
	return p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// work runs the worker. Its log goes to out.
func work(ctx context.Context, a agent.Agent, args arguments, out *daemon.Output) error {
	settings, err := config.LoadWorker(os.Environ(), args.options())
	if err == nil && settings.Isolation != config.Isolation(agent.IsolationNone) {
		err = fmt.Errorf("%w TURNSTILE_ISOLATION is for the program worker: this program gives its agents their isolation itself; leave it out", config.ErrInvalid)
	}
	if err != nil {
		return err
	}
	log := daemon.NewLogger(out, settings.LogLevel, settings.LogFormat)
	settings.Agent = ownAgent()
	hup := service.Restart
	if args.dev {
		hup = service.Shutdown // nothing would start it again
	}
	end, release := service.WatchSignals(ctx, hup, func() bool {
		_, err := config.LoadWorker(os.Environ(), args.options())
		if err != nil {
			log.Error("SIGHUP is ignored: a restarted worker would not start", "error", err)
		}
		return err == nil
	})
	defer release()
	c := service.Config{Settings: settings, Agent: service.Agent(settings, a), Logger: log, Output: out}
	lost := make(<-chan struct{})
	if args.dev {
		redis, err := startDev(end.Requested, &c)
		if err != nil {
			return end.Unless(err)
		}
		if redis != nil {
			defer redis.Stop()
			lost = redis.Done()
		}
	}
	s, err := service.Start(end, c)
	if err != nil {
		return end.Unless(err)
	}
	if args.dev {
		welcome(out, c, s)
	}
	select {
	case <-end.Requested.Done():
	case <-lost:
		return fmt.Errorf("%w: the Redis of --dev ended, and all messages are lost", service.ErrAbandoned)
	}
	select {
	case <-end.Drain(s.Worker):
		s.Stop(end.Now)
		return end.Done()
	case <-end.Now.Done():
		return service.ErrAbandoned // without s.Stop: turns may still use the connections that it closes
	}
}

// Exit prints the error of Run on stderr and ends the process with its ExitCode. If nobody reads
// stderr, it ends it after a second.
func Exit(err error) {
	if err != nil && !errors.Is(err, service.ErrRestart) {
		out := daemon.NewOutput(os.Stderr)
		fmt.Fprintf(printable.NewWriter(out), "%s: %v\n", filepath.Base(os.Args[0]), err)
		daemon.Flush(daemon.LastWords, out)
	}
	os.Exit(ExitCode(err))
}

// ExitCode returns the exit code for an error of Run: 0 for nil, 2 for a wrong setting or argument, 75 after a
// SIGHUP, when the supervisor should start the program again, and 1 for any other error. A command's may be another one.
func ExitCode(err error) int { return operator.ExitCode(err) }
