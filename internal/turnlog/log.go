// Package turnlog keeps the log of a running turn: what its agent and its user have done, as entries of the transcript,
// steps and events. Three cursors follow it: what followers have been shown, what the turn's journal has stored, and
// what stands if the turn goes on in another run. An event of a step, and all after it, are shown by the write that
// stores the step.
//
// One lock guards all of it. Nothing foreign runs under the lock: no observer, agent, log handler or call to Redis.
package turnlog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// ErrOver is returned for a turn that is over.
var ErrOver = errors.New("the turn is over")

// Store has a log's writes. A *protocol.Claim is one.
type Store interface {
	Emit(ctx context.Context, events []session.Event) error
	Title(ctx context.Context, title string) error
	Journal(ctx context.Context, w protocol.JournalWrite) (origin string, err error)
	StoreState(ctx context.Context, data json.RawMessage, entries int) error
	Progressed()
}

// Config says for which turn a log is, and who learns of it. The functions are called one at a time.
type Config struct {
	Turn            *protocol.ClaimedTurn
	Store           Store
	Context         context.Context // of the writes: a step that ended with its turn is stored, too
	GoesOn          bool            // the agent goes on where its last step ended
	CheckpointEvery time.Duration
	Logger          *slog.Logger
	Contain         func(what string) // is deferred by the log's goroutines
	Began           func()            // the agent has done something for the first time in this run
	Used            func(session.Usage)
	Trace           func(agent.Event) // not with what an earlier run has traced
}

// Log is the log of one run of a turn.
type Log struct {
	Config
	storing oneAtATime // a write of the journal, so that they are in order
	sending oneAtATime // a write of events, taken after storing
	telling oneAtATime // a call of Config's functions

	mu sync.Mutex // guards the rest
	entries
	steps
	stream
	journal
	state

	over    bool
	acted   bool     // the agent has done something in this run
	replays bool     // the events are of an earlier run, which has traced them
	kept    bool     // the items of earlier runs are among the entries
	untold  []func() // calls of Config's functions
}

// New begins a log. Soon it publishes the turn's start, even if the agent has emitted nothing.
func New(c Config) *Log {
	l := &Log{Config: c, storing: newOneAtATime(), sending: newOneAtATime(), telling: newOneAtATime(), entries: newEntries(c.Turn), steps: newSteps()}
	l.goesOn, l.gate = c.GoesOn, noGate
	l.flushes.run, l.checkpoints.run = l.flush, l.checkpoint
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushes.at(time.Now().Add(emitEvery))
	return l
}

// oneAtATime is a lock that its holder keeps during a call of others. It is a channel because inside a bubble of
// testing/synctest time does not pass while a goroutine waits for a mutex.
type oneAtATime chan struct{}

func newOneAtATime() oneAtATime { return make(oneAtATime, 1) }

func (c oneAtATime) lock()   { c <- struct{}{} }
func (c oneAtATime) unlock() { <-c }

// record runs f under the lock, unless the turn is over, and then tells others what f has recorded.
func (l *Log) record(f func()) (recorded bool) {
	tells := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if recorded = !l.over; recorded {
			f()
		}
		return len(l.untold) > 0
	}()
	if tells {
		l.tell()
	}
	return recorded
}

// Tell calls f after what others are told so far.
func (l *Log) Tell(f func()) {
	l.mu.Lock()
	l.untold = append(l.untold, f)
	l.mu.Unlock()
	l.tell()
}

func (l *Log) tell() {
	l.telling.lock()
	defer l.telling.unlock()
	l.mu.Lock()
	calls := l.untold
	l.untold = nil
	l.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// Acts notes that the agent does something.
func (l *Log) Acts() { l.record(l.acts) }

// acts is Acts under the lock.
func (l *Log) acts() {
	if !l.acted {
		l.acted = true
		l.untold = append(l.untold, l.Began)
	}
}

// Acted reports whether the agent has done something in this run.
func (l *Log) Acted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acted
}

// Emit is the agent's Emit.
func (l *Log) Emit(e agent.Event) {
	if !isAgents(e.Type) {
		l.Logger.Warn("an event of the agent is left out: its type is none of an agent's", "type", e.Type)
		return
	}
	l.record(func() { l.add(e) })
}

// add records an event of the agent. l.mu is held.
func (l *Log) add(e agent.Event) {
	l.acts()
	e = storable(e)
	switch e.Type {
	case session.EventTitle:
		e.Text = protocol.CleanTitle(e.Text)
		if e.Text == "" {
			return
		}
		l.title = e.Text
	case session.EventUsage:
		if e.Usage == nil {
			return
		}
		used := *e.Usage
		l.untold = append(l.untold, func() { l.Used(used) })
	case session.EventText:
		if e.Sent != nil { // nobody is shown it
			l.entries.add(e, 0)
			return
		}
	case session.EventState:
		if l.wantedState = slices.Clone(e.Data); e.Data == nil {
			l.wantedState = json.RawMessage("null")
		}
		if !bytes.Equal(l.wantedState, l.storedState) {
			l.flushSoon()
		}
		return
	}
	l.trace(e)
	did := l.entries.add(e, l.redisNow())
	if did != nothing {
		l.checkpointAfter(did)
	}
	if did == toolEnded && l.progressed && !l.stepped { // the journal notes the progress of steps, not of repeated ones
		l.Store.Progressed()
	}
	l.send(streamed(l.turn.ID, e))
}

func (l *Log) trace(e agent.Event) {
	if l.Trace != nil && !l.replays {
		l.untold = append(l.untold, func() { l.Trace(e) })
	}
}

// Steered records a message that the agent has taken into its turn.
func (l *Log) Steered(m wire.Message) {
	l.record(func() {
		l.acts()
		before := l.shownOf(len(l.made))
		l.append(l.userEntry(m, l.redisNow()))
		l.send(session.Event{Type: session.EventSteered, Turn: l.turn.ID, Messages: []string{m.ID}, Continues: l.turn.Continues, Keeps: before})
	})
}

// Untaken returns which of the messages that the agent was offered it has not taken.
func (l *Log) Untaken(offered []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(offered), l.has)
}

// Notice publishes a text for the user that is not the agent's. It returns false if it is too late for this turn.
func (l *Log) Notice(text string) bool {
	return l.Publish(session.Event{Type: session.EventNotice, Text: text})
}

// Publish sends an event of the turn that is not the agent's. It returns false if it is too late for this turn.
func (l *Log) Publish(e session.Event) bool {
	return l.record(func() {
		e.Turn = l.turn.ID
		l.send(e)
	})
}

// Decided notes a decision about a tool that has not ended. One about anything else is only an event.
func (l *Log) Decided(callID string, d protocol.Decided) {
	l.record(func() {
		if i, ok := l.running(callID); ok {
			l.change(i, func(t *session.ToolUse) { t.Decision, t.By = d.Decision, d.By })
		}
	})
}

// Unpermitted ends a tool whose question the turn's end has ended. Otherwise it would count as one that may have had
// effects.
func (l *Log) Unpermitted(callID, why string) {
	l.record(func() {
		if _, ok := l.running(callID); ok {
			l.add(agent.Event{Type: session.EventToolEnd, CallID: callID, Error: "it was not run: " + why})
		}
	})
}

// redisNow estimates Redis' clock, in ms.
func (l *Log) redisNow() int64 {
	return l.turn.StartedAt.Add(time.Since(l.turn.Started)).UnixMilli()
}

// Lead returns the messages that the run begins with, or that the run before began with, from which it goes on. The
// turn's other messages were steered in.
func (l *Log) Lead() []protocol.Taken {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead()
}

// Ran is how long earlier runs have run.
func (l *Log) Ran() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ran
}

// Content is what a log has at its turn's end.
type Content struct {
	Reply   string
	Entries []session.Entry
	Usage   *session.Usage
}

// Finished returns the content of a turn that ended well, with the agent's result.
func (l *Log) Finished(result agent.Result) Content {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Content{cmp.Or(result.Text, l.reply()), l.all(result.Text, l.redisNow(), false), l.usage}
}

// Unfinished returns the content of a turn that was interrupted or failed.
func (l *Log) Unfinished() Content {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.before
	defer func() { l.before = before }()
	l.before = append(slices.Clip(before), l.unused()...)
	return Content{l.reply(), l.all("", 0, true), l.usage}
}
