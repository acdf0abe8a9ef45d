package worker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"turnstile/internal/protocol"
)

// Options are the settings of a Worker. A zero value means the field's default.
type Options struct {
	// Queue has the rules of the sessions. New sets its Worker to ID, and its Immediate and Warm
	// by the agent.
	Queue protocol.Config

	// ID names the worker. Defaults to a unique name.
	ID string

	// Concurrency is how many turns run at once. Defaults to 10.
	Concurrency int

	// AgentTimeout is the longest that a turn may run. Defaults to 10 min.
	AgentTimeout time.Duration

	// AskTimeout is how long an agent's question waits for the user's decision before it is
	// denied. Defaults to 5 min. -1: as long as the turn may run.
	AskTimeout time.Duration

	// DrainTimeout is how long Drain lets turns go on. 0: it interrupts them at once.
	DrainTimeout time.Duration

	// MaxAttempts is how often a message is tried if its failures are retryable. Then it is
	// archived. Defaults to 3.
	MaxAttempts int

	// RetryBackoff is the wait before the second attempt. It doubles with each further one, up to
	// a minute, plus or minus a quarter. Defaults to 1 s.
	RetryBackoff time.Duration

	// SweepInterval is how often the worker searches for lost wake-ups. Defaults to 15 s.
	SweepInterval time.Duration

	// ShareTurns and ShareTime are how many turns a session may run under one claim, and for how
	// long, while other sessions wait. They default to 10 and 60 s.
	ShareTurns int
	ShareTime  time.Duration

	// WarmAgents is how many agents are kept warm between turns, if the agent is an agent.Warmer.
	// Agents that run a turn are not counted. Defaults to Concurrency. -1: none.
	WarmAgents int

	// WarmTTL is how long a warm agent is kept without a turn. Defaults to 1 h.
	WarmTTL time.Duration

	// MessageMaxAge is the oldest that a message may be when it is run; an older one is archived.
	// 0: any age.
	MessageMaxAge time.Duration

	// CheckpointInterval is how often the entries of a running turn are stored, so that it can be
	// resumed from them if its worker dies. The end of a tool is stored at once, but at most ten
	// times an interval. Defaults to 15 s.
	CheckpointInterval time.Duration

	// ResumeFreshness is the oldest resume mark that the agent gets a note about. 0: any age.
	ResumeFreshness time.Duration

	// Ephemeral means that Redis ends with this worker: a drain does not promise users that
	// another worker resumes their turns.
	Ephemeral bool

	// Maintenance runs an asynq.Server for the maintenance jobs. Its heartbeat shows the worker
	// and its turns on asynqmon's Servers page.
	Maintenance bool

	// Observer is called with what happens, for metrics. It may be nil.
	Observer Observer

	jobsEvery  time.Duration // for tests: the interval of all jobs
	stuckAfter time.Duration // for tests

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.ID == "" {
		o.ID = newID()
	}
	o.Queue.Worker = o.ID
	setDefault(&o.Concurrency, 10)
	setDefault(&o.AgentTimeout, 10*time.Minute)
	setDefault(&o.AskTimeout, 5*time.Minute)
	setDefault(&o.MaxAttempts, 3)
	setDefault(&o.RetryBackoff, time.Second)
	setDefault(&o.SweepInterval, 15*time.Second)
	setDefault(&o.CheckpointInterval, 15*time.Second)
	setDefault(&o.ShareTurns, 10)
	setDefault(&o.ShareTime, time.Minute)
	setDefault(&o.WarmAgents, o.Concurrency)
	setDefault(&o.WarmTTL, time.Hour)
	setDefault(&o.stuckAfter, stuckAfter)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = o.Logger.With("worker", o.ID)
	if o.Queue.SkippedQueue == nil {
		o.Queue.SkippedQueue = func(queue string) {
			o.Logger.Warn("a queue is skipped: its name is not a valid session's, so nothing in it runs; see docs/wire.md for names", "queue", queue)
		}
	}
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (o Options) validate() error {
	var errs []error
	for name, bad := range map[string]bool{
		"Concurrency": o.Concurrency < 0, "AgentTimeout": o.AgentTimeout < 0, "DrainTimeout": o.DrainTimeout < 0,
		"MaxAttempts": o.MaxAttempts < 0, "RetryBackoff": o.RetryBackoff < 0, "SweepInterval": o.SweepInterval < 0,
		"ShareTurns": o.ShareTurns < 0, "ShareTime": o.ShareTime < 0, "MessageMaxAge": o.MessageMaxAge < 0,
		"CheckpointInterval": o.CheckpointInterval < 0, "ResumeFreshness": o.ResumeFreshness < 0,
		"WarmTTL": o.WarmTTL < 0,
	} {
		if bad {
			errs = append(errs, fmt.Errorf("worker: Options.%s is negative", name))
		}
	}
	if o.WarmAgents < -1 {
		errs = append(errs, errors.New("worker: Options.WarmAgents is below -1"))
	}
	if o.AskTimeout < -1 {
		errs = append(errs, errors.New("worker: Options.AskTimeout is below -1"))
	}
	return errors.Join(errs...)
}

// newID returns a unique name that shows an operator where the worker runs.
func newID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:4]))
}
