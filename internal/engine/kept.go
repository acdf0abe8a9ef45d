package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// maxRaw is how much of an agent's own event is passed on, in bytes.
const maxRaw = 64 << 10

// bounded is a raw event without its data if that is too long for the stream.
func bounded(e agent.Event) agent.Event {
	if len(e.Data) > maxRaw {
		e.Text, e.Data = fmt.Sprintf("%d bytes are left out", len(e.Data)), nil
	}
	return e
}

// use adds up what the turn has used. r.mu is held.
func (r *recorder) use(u session.Usage) {
	if r.usage != nil {
		u = r.usage.Plus(u)
	}
	r.usage = &u
}

// used is what the turn has used so far, nil if the agent does not tell.
func (r *recorder) used() *session.Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usage
}

// found says what the agent had stored before.
func (r *recorder) found(data json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = data
}

// keepSoon takes note of what the agent wants stored. r.mu is held.
func (r *recorder) keepSoon(data json.RawMessage) {
	r.keep = slices.Clone(data)
	if r.keep == nil {
		r.keep = json.RawMessage("null")
	}
	if r.unkept() != nil {
		r.schedule()
	}
}

// unkept is what is to be stored now, should the turn be cut off: nil where that is
// stored already. r.mu is held.
func (r *recorder) unkept() json.RawMessage {
	if bytes.Equal(r.keep, r.kept) {
		return nil
	}
	return r.keep
}

// store stores it.
func (r *recorder) store(data json.RawMessage) {
	if data == nil {
		return
	}
	if err := r.turn.hold.Keep(r.turn.hold.Lease().Context(), data, 0); err != nil {
		r.turn.log.Warn("what the agent keeps was not stored", "error", err)
		return
	}
	r.mu.Lock()
	r.kept = data
	r.mu.Unlock()
}

// state is what the agent keeps, nil: it has not said so in this turn; and what is
// stored.
func (r *recorder) state() (keep, kept json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keep, r.kept
}

// asked, answered and cancelled tell of a question to the user.
func (r *recorder) asked(number int, q agent.Question, timeout time.Duration) {
	r.tell(session.Event{
		Type: session.EventPermissionAsked, CallID: strconv.Itoa(number), Name: q.Name, Text: q.Text, Input: q.Input,
		TimeoutMS: timeout.Milliseconds(),
	})
}

func (r *recorder) answered(number int, d session.Decision) {
	decision := session.DecisionDenied
	if d == session.Allow || d == session.Always {
		decision = session.DecisionAllowed
	}
	r.ended(number, decision)
}

func (r *recorder) cancelled(number int) { r.ended(number, session.DecisionCancelled) }

func (r *recorder) ended(number int, decision string) {
	r.tell(session.Event{Type: session.EventPermissionAnswered, CallID: strconv.Itoa(number), Decision: decision})
}

// tell sends an event of the turn that is not the agent's. False: it is too late.
func (r *recorder) tell(e session.Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	e.Turn = r.turn.ID
	r.send(e)
	return true
}
