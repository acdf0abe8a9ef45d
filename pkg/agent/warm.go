package agent

import "context"

// Warmer is implemented by agents that keep something between a session's turns: a process, a
// connection, a prompt cache. A worker never calls their own Run. It calls Warm for a session's
// first turn and runs that turn and the session's next ones with the result, until it closes it.
type Warmer interface {
	// Warm builds an agent for this turn and possibly for later ones of the same session. Its
	// errors are treated as those of Run. ctx is the turn's: it bounds the call, and the warm agent
	// outlives it.
	Warm(ctx context.Context, turn *Turn) (Warm, error)

	// Signature identifies all settings of a warm agent: command, model and others. It is called
	// before every turn. A warm agent with another signature is closed and built again.
	Signature() string
}

// Warm is an agent of one session. Its methods are not called concurrently, and none is called
// after Close.
//
// It remembers the transcript from its own turns, and must check TranscriptID: another ID than in
// its last turn means another transcript, and Turn.History has all of it. While the ID stays the
// same, no other agent has written to the transcript; otherwise a new agent would have been built.
type Warm interface {
	// Run runs one turn, as Agent's does, except that processes and connections for the next turn
	// may stay. It must be idle then, because no lease covers the time between two turns. After an
	// error, a panic or the loss of the session the agent is not run again.
	Run(ctx context.Context, turn *Turn) (Result, error)

	// Ended reports that the agent has died between two turns. A worker asks before each turn but the
	// first, and then builds another agent, so that no attempt of the message is lost.
	Ended() bool

	// Close stops everything that the agent has started, and then returns. It is called once, and
	// should take no longer than an interrupt. Its error is logged.
	Close() error
}

// RunOnce builds a warm agent for one turn, runs it and closes it. A Warmer's Run calls it, for
// callers that keep no warm agents.
func RunOnce(ctx context.Context, w Warmer, turn *Turn) (Result, error) {
	warm, err := w.Warm(ctx, turn)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = warm.Close() }() // the turn is over, an error changes nothing
	return warm.Run(ctx, turn)
}
