package worker

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

const (
	// emitEvery is how long events are collected before they are sent, so that a stream of tokens
	// does not become a stream of round trips.
	emitEvery = 75 * time.Millisecond

	// emitFirst is how long the first event after a pause waits. A turn that is over by then needs
	// no separate batch.
	emitFirst = 5 * time.Millisecond
)

// recorder writes the events of a turn's agent to four places:
//
//	the session's stream       batches of events, below
//	the transcript             recorder_entries.go; written by the turn's end
//	the turn's journal         recorder_journal.go; recorder_checkpoints.go says when
//	the session's agent state  recorder_state.go
//
// recorder_event.go first makes an event storable.
type recorder struct {
	turn  *protocol.ClaimedTurn
	claim *protocol.Claim
	containment

	state       agentState
	checkpoints checkpoints
	journal     journal
	tokens      *usedTokens
	trace       TurnTrace   // nil: there is none
	acted       atomic.Bool // the agent has done something in this run
	started     func()      // called then

	mu      sync.Mutex
	replays bool // the events are of an earlier run, which has traced them
	over    bool
	entries entries

	unsent []session.Event
	held   []session.Event // these and all after them wait for the journal's next write
	hold   bool            // so do events from now on
	title  string          // proposed and not stored yet
	sent   time.Time       // when the last batch was sent; zero: never
	due    time.Time       // when the next one is due; zero: none is
	timer  *time.Timer     // sends the next one

	sending oneAtATime // one batch at a time, in order
}

// newRecorder begins a recording. After emitEvery it publishes the turn's start even if the agent
// has emitted nothing.
func newRecorder(turn *protocol.ClaimedTurn, claim *protocol.Claim, checkpointEvery time.Duration, tokens *usedTokens, c containment) *recorder {
	r := &recorder{turn: turn, claim: claim, containment: c, tokens: tokens, due: time.Now().Add(emitEvery), sending: newOneAtATime()}
	r.entries.turn = turn
	r.journal = journal{storing: newOneAtATime()}
	r.state.claim, r.state.log = claim, c.log
	r.checkpoints = checkpoints{interval: checkpointEvery, began: turn.Started, store: r.storeCheckpoint, containment: c, storing: newOneAtATime()}
	r.timer = time.AfterFunc(emitEvery, r.flush)
	return r
}

// acts notes that the agent does something.
func (r *recorder) acts() {
	if !r.acted.Swap(true) {
		r.started()
	}
}

// record is the agent's emit.
func (r *recorder) record(e agent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(e)
}

// add records an event of the agent. r.mu is held.
func (r *recorder) add(e agent.Event) {
	if r.over {
		return // the agent emits after its turn's end
	}
	if !isAgents(e.Type) {
		r.log.Warn("an event of the agent is left out: its type is none of an agent's", "type", e.Type)
		return
	}
	r.acts()
	e = storable(e)
	switch e.Type {
	case session.EventTitle:
		e.Text = protocol.CleanTitle(e.Text)
		if e.Text == "" {
			return
		}
		r.title = e.Text
	case session.EventUsage:
		if e.Usage == nil {
			return
		}
		r.tokens.report(r.turn.Agent, *e.Usage)
	case session.EventState:
		if r.state.want(e.Data) {
			r.schedule()
		}
		return
	}
	if r.trace != nil {
		r.traced(e)
	}
	did := r.entries.add(e, r.redisNow())
	if did != nothing {
		r.checkpoints.after(did)
	}
	if did == toolEnded && r.entries.progressed && !r.journal.steps { // the journal notes the progress of steps, not of repeated ones
		r.claim.Progressed()
	}
	r.send(streamed(r.turn.ID, e))
}

// steered records a message that the agent has taken into its turn.
func (r *recorder) steered(m wire.Message) {
	r.acts()
	r.mu.Lock()
	defer r.mu.Unlock()
	before := items(r.entries.made)
	r.entries.addUser(m, r.redisNow())
	r.send(session.Event{Type: session.EventSteered, Turn: r.turn.ID, Messages: []string{m.ID}, Continues: r.turn.Continues, Keeps: before})
}

// notice publishes a text for the user that is not the agent's. It returns false if it is too
// late for this turn.
func (r *recorder) notice(text string) bool {
	return r.publish(session.Event{Type: session.EventNotice, Text: text})
}

// publish sends an event of the turn that is not the agent's. It returns false if it is too late
// for this turn.
func (r *recorder) publish(e session.Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	e.Turn = r.turn.ID
	r.send(e)
	return true
}

// decided notes a decision about a tool.
func (r *recorder) decided(callID string, d protocol.Decided) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.entries.decided(callID, d)
	}
}

// unpermitted ends a tool whose question the turn's end has ended. Otherwise it would count as one that may have had
// effects.
func (r *recorder) unpermitted(callID, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries.open[callID]) > 0 {
		r.add(agent.Event{Type: session.EventToolEnd, CallID: callID, Error: "it was not run: " + why})
	}
}

// redisNow estimates Redis' clock, in ms.
func (r *recorder) redisNow() int64 {
	return r.turn.StartedAt.Add(time.Since(r.turn.Started)).UnixMilli()
}

// send adds an event to the next batch and merges adjacent pieces of text. r.mu is held.
func (r *recorder) send(e session.Event) {
	line := &r.unsent
	if r.hold {
		line = &r.held
	}
	if n := len(*line); n > 0 && isText(e) && (*line)[n-1].Type == e.Type {
		(*line)[n-1].Text += e.Text
	} else {
		*line = append(*line, e)
	}
	r.schedule()
}

// schedule makes sure that a batch is sent soon. r.mu is held.
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
	return e.Type == session.EventText || e.Type == session.EventThought
}

// flush is called by the timer and sends a batch. After the end it does nothing: stop sends the
// rest, because the claim may be at its next turn by then.
func (r *recorder) flush() {
	defer r.contain("its events")
	r.sending.lock()
	defer r.sending.unlock()
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	events, title := r.unsent, r.title
	r.unsent, r.title, r.due, r.sent = nil, "", time.Time{}, time.Now()
	r.mu.Unlock()
	r.state.save() // first, so that readers of the agent's text find it stored
	r.emit(events, title)
}

// allUnsent takes the events that are not sent yet, also those that wait for the journal. r.mu is held.
func (r *recorder) allUnsent() (events []session.Event) {
	events = append(r.unsent, r.held...)
	r.unsent, r.held, r.hold = nil, nil, false
	return events
}

// emit sends a batch. Events are only for followers, so a failure does not end the turn.
func (r *recorder) emit(events []session.Event, title string) {
	ctx := r.claim.Lease().Context()
	if err := r.claim.Emit(ctx, events); err != nil && !errors.Is(err, lease.ErrLost) { // the turn's end reports a loss
		r.log.Warn("events were not sent", "events", len(events), "error", err)
	}
	if title == "" {
		return
	}
	if err := r.claim.Title(ctx, title); err != nil {
		r.log.Warn("the title was not stored", "error", err)
	}
}

// silence ends the recording: nothing more is sent.
func (r *recorder) silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.timer.Stop()
}

// stop ends the recording and sends the rest, except a last piece of text, which the turn's end
// repeats anyway. It waits for writes of the journal in flight.
func (r *recorder) stop() {
	r.silence()
	r.checkpoints.stop()
	r.journal.storing.lock()
	r.journal.storing.unlock() // a later one is refused
	r.sending.lock()           // waits for a batch in flight
	defer r.sending.unlock()
	r.mu.Lock()
	rest, title := r.allUnsent(), r.title
	r.title = ""
	r.mu.Unlock()
	if len(rest) > 1 || len(rest) == 1 && rest[0].Type != session.EventText {
		r.emit(rest, title)
	}
}

// recording is a recorder's content at its turn's end.
type recording struct {
	reply   string
	entries []session.Entry
	usage   *session.Usage
}

// finished returns the recording of a turn that ended well, with the agent's result.
func (r *recorder) finished(result agent.Result) recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	reply := result.Text
	if reply == "" {
		reply = r.entries.reply()
	}
	return recording{reply, r.entries.all(result.Text, r.redisNow(), false), r.entries.usage}
}

// unfinished returns the recording of a turn that was interrupted or failed.
func (r *recorder) unfinished() recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	return recording{r.entries.reply(), r.entries.all("", 0, true), r.entries.usage}
}
