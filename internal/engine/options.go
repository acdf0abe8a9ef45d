package engine

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

// Options are the settings of a Worker. A zero value means the default that the field
// names.
type Options struct {
	// Queue are the rules of the sessions. Its Worker is set to ID, and its
	// Immediate by the agent.
	Queue protocol.Config

	// ID names the worker. Defaults to one that is unique.
	ID string

	// Concurrency is how many turns run at once. Defaults to 10.
	Concurrency int

	// AgentTimeout ends a turn that runs longer. Defaults to 10 min.
	AgentTimeout time.Duration

	// AskTimeout is how long an agent's question waits for the user's decision before it
	// is denied. Defaults to 5 min. -1: as long as the turn may take.
	AskTimeout time.Duration

	// DrainTimeout is how long Drain lets turns run on. 0: not at all.
	DrainTimeout time.Duration

	// MaxAttempts is how often a message is tried whose failures are retryable, before
	// it is archived. Defaults to 3.
	MaxAttempts int

	// RetryBackoff is the wait before the second attempt. It doubles with every
	// further one, up to a minute, plus or minus a quarter. Defaults to 1 s.
	RetryBackoff time.Duration

	// SweepInterval is how often lost wake-ups are searched for. Defaults to 15 s.
	SweepInterval time.Duration

	// ShareTurns and ShareTime are how many turns, and for how long, a session may run
	// under one claim while other sessions wait. Default to 10 and 60 s.
	ShareTurns int
	ShareTime  time.Duration

	// WarmAgents is how many agents are kept warm between their sessions' turns, if the
	// agent is an agent.Warmer. Agents that run a turn are not counted. Defaults to
	// Concurrency. -1: none.
	WarmAgents int

	// WarmTTL is how long a warm agent is kept without a turn. Defaults to 1 h.
	WarmTTL time.Duration

	// MessageMaxAge is how old a message may be when it is run; an older one is
	// archived. 0: as old as it gets.
	MessageMaxAge time.Duration

	// CheckpointInterval is how often a turn that writes text is stored, so that it can be
	// resumed from there if its worker dies. The end of a tool is stored at once, but at
	// most ten times an interval. Defaults to 15 s.
	CheckpointInterval time.Duration

	// ResumeFreshness is how old a resume mark may be for the agent to be told of
	// it. 0: as old as it gets.
	ResumeFreshness time.Duration

	// Ephemeral says that Redis ends with this worker: a drain does not promise users
	// that another worker resumes their turns.
	Ephemeral bool

	// Maintenance runs an asynq.Server for the jobs that need no hurry. Its
	// heartbeat shows the worker and its turns on asynqmon's Servers page.
	Maintenance bool

	// Observer hears what happens, for metrics. Nil: nobody does, at no cost.
	Observer Observer

	jobsEvery  time.Duration // tests do not wait for an hour
	stuckAfter time.Duration // nor for this

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
			o.Logger.Warn("a queue is skipped: its name is no session's, nothing in it is run; see docs/wire.md for names", "queue", queue)
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

// newID tells an operator where the worker runs, and is unique.
func newID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:4]))
}
