package worker

import (
	"context"
	"time"

	"turnstile/internal/backoff"
)

// ThrottleWait is how long a turn waits for a provider.
var ThrottleWait = throttleWait

// Reason is why a worker drains.
type Reason = reason

const (
	ReasonShutdown = reasonShutdown
	ReasonRestart  = reasonRestart
)

// Recovered counts the sessions that a worker has recovered.
type Recovered = recovered

// Drain is Stop or StopToRestart.
func (w *Worker) Drain(ctx context.Context, why Reason) { _ = w.drain(ctx, why) }

// Draining reports whether the worker drains or has drained.
func (w *Worker) Draining() bool { return w.Status().Draining }

// SlotsInUse returns how many slots are taken, how many are lent, and how many of these are wanted back.
func (w *Worker) SlotsInUse() [3]int {
	s := w.dispatcher.slots
	return [3]int{len(s.taken), len(s.lent), int(s.wanted.Load())}
}

// Recovered returns the counts since the worker's start.
func (w *Worker) Recovered() Recovered { return w.roster.counted() }

// WarmAgent describes a session's warm agent, if there is one.
type WarmAgent struct {
	Signature, TranscriptID string
	Entries                 int64
}

// WarmAgent returns a session's warm agent between two turns.
func (w *Worker) WarmAgent(session string) (found WarmAgent, ok bool) {
	if !w.pool.has(session) {
		return found, false
	}
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	a, ok := w.pool.idle.Peek(session)
	if !ok {
		return found, false
	}
	return WarmAgent{a.signature, a.seen.transcriptID, a.seen.entries}, true
}

// ShareTurns sets how many turns a session may run under one claim while others wait.
func (c *Config) ShareTurns(n int) { c.shareTurns = n }

// CheckpointInterval sets how often the entries of a running turn are stored.
func (c *Config) CheckpointInterval(d time.Duration) { c.checkpointInterval = d }

// ResumeFreshness sets the oldest interruption that the agent gets a note about.
func (c *Config) ResumeFreshness(d time.Duration) { c.resumeFreshness = d }

// StuckAfter sets how long a loop's step may take.
func (c *Config) StuckAfter(d time.Duration) { c.stuckAfter = d }

// Jobs sets whether the worker runs the maintenance jobs, and if every is set, their one interval.
func (c *Config) Jobs(run bool, every time.Duration) { c.noJobs, c.jobsEvery = !run, every }

// AgentPause sets how long an agent that cannot be started gets a pause, first and at most.
func (c *Config) AgentPause(first, longest time.Duration) {
	c.agentPause = backoff.Backoff{First: first, Longest: longest}
}

// Interrupted counts the sessions that a drain has interrupted.
func (w *Worker) Interrupted() (n int) {
	for _, s := range w.roster.all() {
		s.mu.Lock()
		if s.drained != nil {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// DrainDuring is the end of a drain's wait, while claim is in flight.
func DrainDuring(claim func()) {
	d := &dispatcher{}
	d.claiming.Go(claim)
	d.wait()
}
