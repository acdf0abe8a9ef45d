package agent

import "context"

// Warmer is implemented by agents that keep something between a session's
// turns: a process, a connection, a prompt cache. A worker never calls their own
// Run. It calls Warm for a session's first turn, runs that turn with what it gets,
// and keeps it for the session's next turns until it is closed.
type Warmer interface {
	// Warm builds what runs this turn, and further ones of the same session,
	// perhaps. Errors are treated as those of Run. ctx is that of the turn: it
	// bounds the building, and what is built outlives it.
	Warm(ctx context.Context, turn Turn) (Warm, error)

	// Signature stands for everything that a warm agent was built from: command,
	// model, settings. One with another signature is closed and built anew. It is
	// asked before every turn.
	Signature() string
}

// Warm is an agent of one session. Its methods are not called concurrently, and
// none after Close.
//
// It remembers the conversation from its own turns, and must look at SessionID:
// when that is another than in its last turn, the conversation is another one,
// of which Turn.History tells all there is. As long as the id is the same nobody
// else has written to the transcript, or the agent would have been built anew.
type Warm interface {
	// Run runs one turn, as Agent's does, except that what it keeps for the next
	// turn may live on. It must then be idle: between two turns no lease holds.
	// After an error, a panic or the loss of the session it is not run again. An
	// agent that has died between two turns returns a Retryable error: the next
	// attempt gets another. See also Mortal.
	Run(ctx context.Context, turn Turn, emit func(Event)) (Result, error)

	// Close ends everything that the agent has started, and returns when it has
	// ended. It is called once, and should take no longer than an interrupt. Its
	// error is logged.
	Close() error
}

// Mortal is implemented by warm agents that can end between two turns, and know it. A
// worker asks before it runs a turn with one, and builds another if it has ended: no
// attempt of the message is lost.
type Mortal interface {
	// Ended is called between two turns only.
	Ended() bool
}

// Stateless is implemented by Warmers whose warm agents remember nothing of the
// conversation: a connection, a loaded model. They go on being used when another
// worker has run a turn of the session meanwhile.
type Stateless interface{ Stateless() bool }

// RunOnce runs a turn with a warm agent of its own. It is what the Run of a
// Warmer does, for callers that keep no warm agents.
func RunOnce(ctx context.Context, w Warmer, turn Turn, emit func(Event)) (Result, error) {
	warm, err := w.Warm(ctx, turn)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = warm.Close() }() // the turn is over, whatever becomes of this
	return warm.Run(ctx, turn, emit)
}
