package engine

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/titles"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

const (
	// emitEvery is how long events are gathered before they are sent: a stream of
	// tokens is not a stream of round trips.
	emitEvery = 75 * time.Millisecond

	// emitFirst is how long the first event after a pause is held back. A turn that
	// is over by then needs no batch of its own.
	emitFirst = 5 * time.Millisecond
)

// recorder takes an agent's events: to the session's stream, in batches, into the
// entries of the transcript, and from time to time into a checkpoint, should the
// turn be cut off.
type recorder struct {
	turn *turn

	mu     sync.Mutex
	unsent []session.Event
	title  string          // proposed and not stored yet
	before []session.Entry // what an earlier run of the turn has made
	made   []session.Entry // assistant's, tools' and steered users' entries so far
	words  strings.Builder // text of the last of them that is not in it yet
	sent   time.Time       // the last batch; zero: there was none
	due    time.Time       // the next one; zero: none is due
	timer  *time.Timer
	over   bool

	usage *session.Usage  // of the turn so far; nil: the agent does not tell
	kept  json.RawMessage // what the agent has stored for later turns
	keep  json.RawMessage // what it wants stored; nil: it has not said

	checkpoints checkpoints

	sending sync.Mutex // one batch at a time, in order
}

// newRecorder begins a recording. The turn's start is told after a while even if
// the agent says nothing.
func newRecorder(t *turn) *recorder {
	r := &recorder{turn: t, due: time.Now().Add(emitEvery)}
	r.timer = time.AfterFunc(emitEvery, r.flush)
	return r
}

// now is Redis' clock, as far as this worker knows it.
func (r *recorder) now() int64 {
	return r.turn.StartedAt.Add(time.Since(r.turn.Started)).UnixMilli()
}

// record is the agent's emit.
func (r *recorder) record(e agent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return // an agent that emits after its end
	}
	e = storable(e)
	switch e.Type {
	case agent.EventTitle:
		r.title = titles.Clean(e.Text)
	case agent.EventUsage:
		if e.Usage == nil {
			return
		}
		r.use(*e.Usage)
	case agent.EventState:
		r.keepSoon(e.Data)
		return
	case agent.EventRaw:
		e = bounded(e)
	}
	r.remember(e)
	r.send(protocol.AgentEvent(r.turn.ID, e))
}

// notice tells the user something that is not the agent's. False: it is too
// late for this turn.
func (r *recorder) notice(text string) bool {
	return r.tell(session.Event{Type: session.EventNotice, Text: text})
}

// steered records a message that the agent has taken into its turn.
func (r *recorder) steered(m session.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	r.made = append(r.made, r.userEntry(m, r.now()))
	r.send(session.Event{Type: session.EventSteered, Turn: r.turn.ID, Messages: []string{m.ID}})
}

// send queues an event; adjacent pieces of text become one.
func (r *recorder) send(e session.Event) {
	if n := len(r.unsent); n > 0 && isText(e) && r.unsent[n-1].Type == e.Type {
		r.unsent[n-1].Text += e.Text
	} else {
		r.unsent = append(r.unsent, e)
	}
	r.schedule()
}

// schedule sees to it that a batch is sent soon. r.mu is held.
func (r *recorder) schedule() {
	now := time.Now()
	at := r.sent.Add(emitEvery)
	if first := now.Add(emitFirst); at.Before(first) {
		at = first
	}
	if r.due.IsZero() || at.Before(r.due) {
		r.due = at
		r.timer.Reset(at.Sub(now))
	}
}

func isText(e session.Event) bool {
	return e.Type == string(agent.EventText) || e.Type == string(agent.EventThought)
}

// flush is the timer's: it sends what is unsent. After the end that is stop's
// affair, for by then the hold may be at its next turn.
func (r *recorder) flush() {
	defer r.turn.contain("its events")
	r.sending.Lock()
	defer r.sending.Unlock()
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	events, title, state := r.unsent, r.title, r.unkept()
	r.unsent, r.title, r.due, r.sent = nil, "", time.Time{}, time.Now()
	r.mu.Unlock()
	r.store(state) // first: who hears of the agent's words may rely on it
	r.emit(events, title)
}

// emit sends a batch. Events are a courtesy to whoever watches: one that cannot
// be sent does not end the turn.
func (r *recorder) emit(events []session.Event, title string) {
	ctx := r.turn.hold.Lease().Context()
	if err := r.turn.hold.Emit(ctx, events); err != nil {
		r.turn.log.Warn("events were not sent", "events", len(events), "error", err)
	}
	if title == "" {
		return
	}
	if err := r.turn.hold.Title(ctx, title); err != nil {
		r.turn.log.Warn("the title was not stored", "error", err)
	}
}

// silence ends the recording: nothing more is sent.
func (r *recorder) silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.timer.Stop()
}

// stop ends the recording and sends the rest, except a last piece of text, which
// the turn's end repeats anyway. A checkpoint that is under way is waited for.
func (r *recorder) stop() {
	r.silence()
	r.stopCheckpoints()
	r.sending.Lock() // a batch that is under way
	defer r.sending.Unlock()
	r.mu.Lock()
	rest, title := r.unsent, r.title
	r.unsent, r.title = nil, ""
	r.mu.Unlock()
	if len(rest) > 1 || len(rest) == 1 && rest[0].Type != string(agent.EventText) {
		r.emit(rest, title)
	}
}
