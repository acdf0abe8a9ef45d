package worker

import (
	"context"
	"runtime/debug"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
)

// Tracer follows turns, for traces. Several goroutines call it at once, among them those that run the turns, so it must not
// block.
type Tracer interface {
	// TurnBegan is called when a turn was claimed, before its agent starts.
	TurnBegan(TurnBegin) TurnTrace
}

// TurnTrace follows one turn. Its calls come one after the other.
type TurnTrace interface {
	// TraceParent is the traceparent that the turn's agent gets.
	TraceParent() string

	// Event is called with each event of the agent that is recorded. It must not keep the event's JSON.
	Event(agent.Event)

	// Ended is called once, at the turn's end.
	Ended(TurnEnd)
}

// TurnBegin is the beginning of a turn on a worker.
type TurnBegin struct {
	Session, TranscriptID, Turn string
	Agent                       string    // the agent's name
	Attempt                     int       // from 1
	Began                       time.Time // when it was claimed

	// Before is the ID of the session's turn before, if the first message was in one. "" if it was not, or if that is
	// unknown.
	Before string

	Messages []TracedMessage // at least one
}

// TracedMessage is a message of a turn that begins.
type TracedMessage struct {
	ID, TraceParent, Text string

	First  bool          // it was in no turn before
	Waited time.Duration // since it was first seen or due
}

// beforePatience bounds the read of the turn before.
const beforePatience = time.Second

// follow begins to trace the turn, if there is a tracer. Without its reply the turn runs untraced.
func (t *turnRun) follow() {
	if t.opts.Tracer == nil {
		return
	}
	defer t.untraced()
	b := TurnBegin{
		Session: t.Session, TranscriptID: t.TranscriptID, Turn: t.ID, Agent: t.ClaimedTurn.Agent, Attempt: t.Attempt, Began: t.Started,
	}
	goesOn := t.Carries == protocol.CarriesSteps
	if goesOn || !t.First() {
		ctx, cancel := context.WithTimeout(t.claim.Lease().Context(), beforePatience)
		b.Before = t.claim.Before(ctx)
		cancel()
	}
	for _, m := range t.Messages() {
		b.Messages = append(b.Messages, TracedMessage{
			ID: m.Message.ID, TraceParent: m.Message.TraceParent, Text: m.Message.Text, First: m.First() && !goesOn, Waited: m.Age,
		})
	}
	t.trace = t.opts.Tracer.TurnBegan(b)
}

// traced lets the tracer see an event.
func (t *turnRun) traced(e agent.Event) {
	if t.trace != nil {
		defer t.untraced()
		t.trace.Event(e)
	}
}

// tracesEnd lets the tracer see the turn's end.
func (t *turnRun) tracesEnd(end TurnEnd) {
	if t.trace != nil {
		t.output.Tell(func() {
			defer t.untraced()
			t.trace.Ended(end)
		})
	}
}

// untraced is deferred around the calls of a tracer: a turn does not fail because its tracer does.
func (c containment) untraced() {
	if p := recover(); p != nil {
		c.log.Error("a tracer panicked", "panic", p, "stack", string(debug.Stack()))
	}
}
