package worker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"turnstile/internal/backoff"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/agreement"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// Config has a worker's settings. A zero field means its default. session.NoLimit means that there
// is no limit, where the field says so; New refuses other negative values.
type Config struct {
	// Name is the worker's name in session.Info, in the log and on asynqmon's Servers page. No other
	// worker may have it. Defaults to HOST-PID-RANDOM.
	Name string

	// AgentName is the agent's name, as admin.Client.Workers returns it. Defaults to none.
	AgentName string

	// Agents are further agents, each for some sessions. The agent of New, named "default", has all
	// others. With it nil, these wait for another worker. All workers must have the same agents.
	Agents []NamedAgent

	// RunsPrograms says that an agent may run programs on this machine. A gateway without
	// tokens refuses requests while such a worker runs.
	RunsPrograms bool

	// Concurrency is how many turns run at once, each of another session. Defaults to 10.
	Concurrency int

	// Queue has the queue settings of sessions that have none. Defaults to ModeQueue, a debounce of
	// 1 s, a cap of 100 and DropNew.
	Queue session.QueueSettings

	// Limits are the senders' limits: give both the same. A larger message becomes a dead letter,
	// and so do the newest messages of other producers over Limits.Queue. The worker uses no
	// other of them.
	Limits session.Limits

	// Settings returns those that must be the same at all workers and gateways of an installation, by name.
	// The worker publishes them in Redis with the names of its agents, and logs a warning while another one
	// has other values. They must have no secrets. Defaults to AgentName and Limits.
	Settings func() map[string]string

	// Keep is how long and how much is kept.
	Keep Keep

	// LeaseTTL is how long a session stays owned after its worker died, at least 1 s. Defaults to
	// 15 s.
	LeaseTTL time.Duration

	// AgentTimeout is the longest that a turn may run. Defaults to 10 min.
	AgentTimeout time.Duration

	// ParkAfter is how long a question, or an agent.Wait, stays in a slot. Then, if it has a Key, its turn gives up
	// the slot and the session's lease, and runs again when it can go on. A draining worker parks such turns
	// immediately. For questions without a Key, see WaitingAgents. Defaults to 30 s; session.NoLimit: never.
	ParkAfter time.Duration

	// ParkedCap is how many turns may wait without a slot, for a decision, a value or a time, of all workers
	// together. Beyond this number, waiting turns keep their slots. It is approximate: a worker counts them every
	// 5 s, together with sessions that have delayed messages. Defaults to 100,000; session.NoLimit: any number.
	ParkedCap int

	// WaitingAgents is how many turns at most wait without a slot for the decision of a question without a
	// Key. Such a turn gives its slot up after ParkAfter, keeps agent, lease and AgentTimeout, and takes a
	// slot ahead of new sessions when the user has decided. Defaults to Concurrency. -1: none.
	WaitingAgents int

	// AskTimeout is how long an agent's question waits for the user's decision before it is denied.
	// NoLimit: as long as the turn may run. Defaults to 5 min.
	AskTimeout time.Duration

	// Approvers are who may decide the agent's questions over HTTP, see session.Question. Defaults to
	// none: the gateway's rule decides.
	Approvers []string

	// DrainTimeout is how long Stop lets turns run, or NoLimit. Defaults to 60 s. To interrupt them at
	// once, call Stop with an ended context.
	DrainTimeout time.Duration

	// MaxAttempts is how often a message is tried if its failures are retryable. Then it becomes a
	// dead letter. Defaults to 3.
	MaxAttempts int

	// RetryBackoff is the wait before the second attempt. It doubles with each further one, up to
	// a minute, plus or minus a quarter. Defaults to 1 s.
	RetryBackoff time.Duration

	// MessageMaxAge is the maximum age of a message when it runs. An older one becomes a dead
	// letter. Defaults to NoLimit.
	MessageMaxAge time.Duration

	// StuckLimit is how many interruptions in a row suspend a session: the next turn begins a new
	// transcript. If the last one was a worker's death, the message becomes a dead letter. Defaults
	// to 3.
	StuckLimit int

	// Crash says how a turn continues after the death of its worker. Defaults to CrashResume.
	Crash CrashPolicy

	// SweepInterval is how often the worker searches for lost wake-ups. Defaults to 15 s.
	SweepInterval time.Duration

	// RecoveryRate is how many sessions a second all workers together recover after a crash or an
	// outage. Defaults to 50.
	RecoveryRate float64

	// WarmAgents is how many agents are kept between turns, if the agent is an agent.Warmer. Agents
	// that run a turn are not counted. Defaults to Concurrency.
	WarmAgents int

	// WarmTTL is how long a warm agent is kept without a turn. Defaults to 1 h.
	WarmTTL time.Duration

	// Ephemeral means that Redis ends with this worker: the notice of a drain then does not
	// announce another worker.
	Ephemeral bool

	// Logger defaults to slog.Default(). Turns and leases wait for it: give it a handler that does not wait
	// for the log's reader, as package program does.
	Logger *slog.Logger

	// Observer is for metrics.
	Observer Observer

	// Tracer is for traces. Defaults to none, which costs nothing.
	Tracer Tracer

	// The package's tests set these. They default to the constants below.
	shareTurns         int
	shareTime          time.Duration
	checkpointInterval time.Duration
	resumeFreshness    time.Duration
	stuckAfter         time.Duration
	agentPause         backoff.Backoff // of an agent that cannot be started
	jobsEvery          time.Duration   // the interval of all jobs. Defaults to each one's
	noJobs             bool
}

// NamedAgent is an agent for some sessions.
type NamedAgent struct {
	// Name has 1 to 64 letters, digits and ._:@+=~-, the first a letter or digit. A session keeps
	// the agent of its first turn.
	Name string

	// Sessions are the keys of the agent's sessions, or their beginnings and a star: "acme:*". The
	// longest one that fits a key decides.
	Sessions []string

	// Agent is nil if this worker does not run it: then other workers do, and workers sort the sessions by their
	// agents, so that none waits for a slot that cannot run it.
	Agent agent.Agent

	// Timeout and AskTimeout default to Config's AgentTimeout and AskTimeout.
	Timeout, AskTimeout time.Duration

	// Approvers are who may decide the agent's questions, see session.Question.
	Approvers []string
}

// Keep is how long and how much is kept. A zero field means its default.
type Keep struct {
	Results     time.Duration // of ended messages. Less than a second keeps none. Defaults to 1 h
	Transcripts time.Duration // after their last entry. Defaults to 30 days
	Sessions    time.Duration // after their last activity. Defaults to 30 days
	DeadLetters time.Duration // Defaults to 90 days

	// TranscriptBytes is the most of Redis' memory that a transcript takes. The oldest entries go
	// first. Each counts for at least 32 KiB. Defaults to 64 MiB, so about 2,000 entries.
	TranscriptBytes int

	// EventBytes is the most bytes of a session's events. The oldest go first. Each counts for at
	// least 8 KiB. Defaults to 8 MiB, so about 1,000 events.
	EventBytes int
}

// CrashPolicy says how a turn continues after the death of its worker.
type CrashPolicy string

// The crash policies.
const (
	CrashResume  CrashPolicy = "resume"  // it runs again in the same transcript, with a note
	CrashSuspend CrashPolicy = "suspend" // it runs again in a new transcript
)

const (
	// After so many turns under one claim, or so much time, a session makes room for waiting ones.
	// A claim costs about as much as a short turn, so ten keep its share small.
	shareTurns = 10
	shareTime  = time.Minute

	// checkpointInterval is how often the entries of a running turn are stored, so that it can be
	// resumed from them if its worker dies. The end of a tool is stored at once, but at most ten
	// times an interval.
	checkpointInterval = 15 * time.Second

	// An entry and an event count for at least so many bytes: their number is bounded, too.
	entryLeast = 64 << 20 / 2000
	eventLeast = 8 << 20 / 1000

	// resumeFreshness is the maximum age of an interruption for which the agent gets a note. After
	// an hour the user has mostly moved on.
	resumeFreshness = time.Hour
)

// withDefaults returns c with its defaults filled in. A MessageMaxAge of NoLimit becomes 0.
func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = agreement.NewName()
	}
	c.Concurrency = cmp.Or(c.Concurrency, 10)
	c.Keep.Results = cmp.Or(c.Keep.Results, time.Hour)
	c.Keep.TranscriptBytes = cmp.Or(c.Keep.TranscriptBytes, 64<<20)
	c.Keep.EventBytes = cmp.Or(c.Keep.EventBytes, 8<<20)
	c.AgentTimeout = cmp.Or(c.AgentTimeout, 10*time.Minute)
	c.AskTimeout = cmp.Or(c.AskTimeout, 5*time.Minute)
	c.ParkAfter = cmp.Or(c.ParkAfter, 30*time.Second)
	c.ParkedCap = cmp.Or(c.ParkedCap, 100_000)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, time.Minute)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 3)
	c.RetryBackoff = cmp.Or(c.RetryBackoff, time.Second)
	c.SweepInterval = cmp.Or(c.SweepInterval, 15*time.Second)
	c.WarmAgents = cmp.Or(c.WarmAgents, c.Concurrency)
	c.WaitingAgents = cmp.Or(c.WaitingAgents, c.Concurrency)
	c.WarmTTL = cmp.Or(c.WarmTTL, time.Hour)
	c.shareTurns = cmp.Or(c.shareTurns, shareTurns)
	c.shareTime = cmp.Or(c.shareTime, shareTime)
	c.checkpointInterval = cmp.Or(c.checkpointInterval, checkpointInterval)
	c.resumeFreshness = cmp.Or(c.resumeFreshness, resumeFreshness)
	c.stuckAfter = cmp.Or(c.stuckAfter, stuckAfter)
	c.agentPause = cmp.Or(c.agentPause, backoff.Backoff{First: time.Second, Longest: time.Minute})
	c.MessageMaxAge = max(c.MessageMaxAge, 0)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("worker", c.Name)
	return c
}

func (c Config) validate() error {
	var errs []error
	wrong := func(field, text string) { errs = append(errs, fmt.Errorf("worker: Config.%s %s", field, text)) }
	for field, bad := range map[string]bool{
		"Concurrency": c.Concurrency < 0, "Limits.MessageBytes": c.Limits.MessageBytes < 0, "Limits.Queue": c.Limits.Queue < 0, "AgentTimeout": c.AgentTimeout < 0, "ParkedCap": c.ParkedCap < session.NoLimit, "MaxAttempts": c.MaxAttempts < 0,
		"RetryBackoff": c.RetryBackoff < 0, "StuckLimit": c.StuckLimit < 0, "SweepInterval": c.SweepInterval < 0,
		"RecoveryRate": c.RecoveryRate < 0, "WarmAgents": c.WarmAgents < 0, "WarmTTL": c.WarmTTL < 0,
		"Queue.Cap": c.Queue.Cap < 0, "Queue.Debounce": c.Queue.Debounce < 0,
		"Keep.Results": c.Keep.Results < 0, "Keep.Transcripts": c.Keep.Transcripts < 0, "Keep.Sessions": c.Keep.Sessions < 0,
		"Keep.DeadLetters": c.Keep.DeadLetters < 0, "Keep.TranscriptBytes": c.Keep.TranscriptBytes < 0, "Keep.EventBytes": c.Keep.EventBytes < 0,
	} {
		if bad {
			wrong(field, "is negative")
		}
	}
	for field, d := range map[string]time.Duration{"AskTimeout": c.AskTimeout, "ParkAfter": c.ParkAfter, "DrainTimeout": c.DrainTimeout, "MessageMaxAge": c.MessageMaxAge} {
		if d < 0 && d != session.NoLimit {
			wrong(field, "is negative and not session.NoLimit")
		}
	}
	if c.WaitingAgents < -1 {
		wrong("WaitingAgents", "is below -1")
	}
	if c.LeaseTTL != 0 && c.LeaseTTL < time.Second {
		wrong("LeaseTTL", "is below 1s")
	}
	if c.Crash != "" && c.Crash != CrashResume && c.Crash != CrashSuspend {
		wrong("Crash", fmt.Sprintf("is %.100q: use CrashResume or CrashSuspend", string(c.Crash)))
	}
	_, mode := wire.ParseMode(string(c.Queue.Mode))
	_, drop := wire.ParseDropPolicy(string(c.Queue.Drop))
	for field, err := range map[string]error{"Queue.Mode": mode, "Queue.Drop": drop} {
		if err != nil {
			wrong(field, "is wrong: "+err.Error())
		}
	}
	return errors.Join(errs...)
}

// agreed returns the settings that the worker publishes.
func (w *Worker) agreed() map[string]string {
	own := map[string]string{"agents": fmt.Sprintf("%.1000s", strings.Join(w.elsewhere.known, " "))}
	if w.opts.Settings == nil {
		own["AgentName"], own["Limits"] = w.opts.AgentName, fmt.Sprintf("%+v", w.opts.Limits.WithDefaults())
		return own
	}
	maps.Copy(own, w.opts.Settings())
	return own
}

// consumer returns the rules by which the worker owns sessions.
func (c Config) consumer(all servedAgents, e *elsewhere, sorts *sorting, life *lifecycle) protocol.Config {
	p := protocol.Config{
		Worker: c.Name, Agent: c.AgentName, Programs: c.RunsPrograms,
		SentinelTTL: c.LeaseTTL, Line: c.Queue, Limits: c.Limits,
		StuckLimit: c.StuckLimit, CrashPolicy: protocol.CrashPolicy(c.Crash), RecoveryRate: c.RecoveryRate,
		Retention: c.Keep.Results, TranscriptTTL: c.Keep.Transcripts, SessionTTL: c.Keep.Sessions, ArchiveTTL: c.Keep.DeadLetters,
		TranscriptBytes: c.Keep.TranscriptBytes, TranscriptCap: max(c.Keep.TranscriptBytes/entryLeast, 1),
		EventsBytes: c.Keep.EventBytes, EventsCap: max(c.Keep.EventBytes/eventLeast, 1),
		SkippedQueue: func(queue string) {
			c.Logger.Warn("a queue is skipped: its name is not a valid session's, so nothing in it runs; see docs/wire.md for names", "queue", queue)
		},
	}
	p.Age, p.Tenants = life.age, sorts.current
	p.Immediate, p.Warm = all.immediate(), all.warm()
	p.Agents, p.Instructable, p.AgentOf, p.Covers = all.names(), all.instructable(), all.table.For, all.table.Covers
	p.Serves, p.Elsewhere, p.Unserved = e.serves, e.runElsewhere, e.unserved
	return p
}
