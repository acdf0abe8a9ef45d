package worker

import (
	"sync"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/sessionqueue"
)

// emitEvery is how long events are gathered before they are sent: a stream of
// tokens is not a stream of round trips.
const emitEvery = 50 * time.Millisecond

// recorder takes an agent's events: to the session's stream, in batches, and into
// the entries of the transcript.
type recorder struct {
	turn *turn

	mu     sync.Mutex
	unsent []sessionqueue.Event
	made   []session.Entry // assistant's and tools' entries so far
	timer  *time.Timer     // armed while something is unsent
	over   bool

	sending sync.Mutex // one batch at a time, in order
}

func newRecorder(t *turn) *recorder { return &recorder{turn: t} }

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
	r.remember(e)
	r.send(sessionqueue.AgentEvent(r.turn.ID, e))
}

// notice tells the user something that is not the agent's. False: it is too
// late for this turn.
func (r *recorder) notice(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	r.send(sessionqueue.Event{Type: sessionqueue.EventNotice, Turn: r.turn.ID, Text: text})
	return true
}

// send queues an event; adjacent pieces of text become one.
func (r *recorder) send(e sessionqueue.Event) {
	if n := len(r.unsent); n > 0 && isText(e) && r.unsent[n-1].Type == e.Type {
		r.unsent[n-1].Text += e.Text
	} else {
		r.unsent = append(r.unsent, e)
	}
	if r.timer == nil {
		r.timer = time.AfterFunc(emitEvery, r.flush)
	}
}

func isText(e sessionqueue.Event) bool {
	return e.Type == string(agent.EventText) || e.Type == string(agent.EventThought)
}

// flush is the timer's: it sends what is unsent. After the end that is stop's
// affair, for by then the hold may be at its next turn.
func (r *recorder) flush() {
	r.sending.Lock()
	defer r.sending.Unlock()
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	events := r.unsent
	r.unsent, r.timer = nil, nil
	r.mu.Unlock()
	r.emit(events)
}

// emit sends a batch. Events are a courtesy to whoever watches: one that cannot
// be sent does not end the turn.
func (r *recorder) emit(events []sessionqueue.Event) {
	if err := r.turn.hold.Emit(r.turn.hold.Lease().Context(), events); err != nil {
		r.turn.log.Warn("events were not sent", "events", len(events), "error", err)
	}
}

// stop ends the recording and sends the rest, except a last piece of text, which
// the turn's end repeats anyway.
func (r *recorder) stop() {
	r.mu.Lock()
	r.over = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.sending.Lock() // a batch that is under way
	defer r.sending.Unlock()
	r.mu.Lock()
	rest := r.unsent
	r.unsent = nil
	r.mu.Unlock()
	if len(rest) > 1 || len(rest) == 1 && rest[0].Type != string(agent.EventText) {
		r.emit(rest)
	}
}

// remember makes transcript entries of events.
func (r *recorder) remember(e agent.Event) {
	last := len(r.made) - 1
	switch e.Type {
	case agent.EventText:
		if last >= 0 && r.made[last].Role == session.RoleAssistant {
			r.made[last].Text += e.Text
			return
		}
		r.made = append(r.made, session.Entry{Role: session.RoleAssistant, Text: e.Text, Turn: r.turn.ID, At: r.now()})
	case agent.EventToolStart:
		r.made = append(r.made, session.Entry{
			Role: session.RoleTool, Turn: r.turn.ID, At: r.now(),
			Tool: &session.ToolUse{Name: e.Name, CallID: e.CallID, Input: e.Input},
		})
	case agent.EventToolEnd:
		for i := last; i >= 0; i-- {
			if tool := r.made[i].Tool; tool != nil && tool.CallID == e.CallID && tool.Output == nil && tool.Error == "" {
				tool.Output, tool.Error = e.Output, e.Error
				return
			}
		}
	}
}

// reply is the result's text, or else the text after the last tool.
func (r *recorder) reply(result agent.Result) string {
	if result.Text != "" {
		return result.Text
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.made); n > 0 && r.made[n-1].Role == session.RoleAssistant {
		return r.made[n-1].Text
	}
	return ""
}

// entries are what the turn adds to the transcript: the user's words, then what
// the agent did.
func (r *recorder) entries(result agent.Result, interrupted bool) []session.Entry {
	reply := r.reply(result)
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.turn
	all := make([]session.Entry, 0, len(r.made)+2)
	all = append(all, session.Entry{
		Role: session.RoleUser, Text: t.Message.Text, Message: t.Message.ID, Meta: t.Message.Meta, Attachments: t.Message.Attachments,
		Turn: t.ID, At: t.StartedAt.UnixMilli(),
	})
	all = append(all, r.made...)
	last := len(all) - 1
	switch {
	case result.Text == "":
	case all[last].Role == session.RoleAssistant:
		all[last].Text = reply
	default:
		all = append(all, session.Entry{Role: session.RoleAssistant, Text: reply, Turn: t.ID, At: r.now()})
	}
	if interrupted {
		all[len(all)-1].Interrupted = true
	}
	return all
}
