package worker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func (a *act) keep(data string) {
	a.Emit(agent.Event{Type: session.EventState, Data: json.RawMessage(data)})
}

func (a *act) use(u session.Usage) { a.Emit(agent.Event{Type: session.EventUsage, Usage: &u}) }

// An agent's state reaches the session's next turn, on another worker too, and after every kind
// of end, but not if the transcript is another.
func TestAgentStateReachesTheNextWorker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(r *rig, w *worker.Worker, a *act)
		next string // the message of the next turn, if it is not a new one
		want string
	}{
		"done":   {end: func(r *rig, _ *worker.Worker, a *act) { a.reply("ok"); r.ends("m1", session.StatusDone) }, want: `{"id":1}`},
		"failed": {end: func(r *rig, _ *worker.Worker, a *act) { a.fail(errors.New("x")); r.ends("m1", session.StatusFailed) }, want: `{"id":1}`},
		"stopped": {end: func(r *rig, _ *worker.Worker, _ *act) {
			r.say("", "/stop")
			r.ends("m1", session.StatusStopped)
		}, want: `{"id":1}`},
		"drained": {end: func(r *rig, w *worker.Worker, _ *act) {
			w.Drain(ended(), worker.ReasonShutdown)
			r.worker(r.stage)
		}, next: "m1", want: `{"id":1}`},
		"interrupted": {end: func(r *rig, _ *worker.Worker, a *act) {
			a.text("so far")
			r.say("m2", "now", session.ModeInterrupt)
			r.ends("m1", session.StatusInterrupted)
		}, next: "m2", want: `{"id":1}`},
		"rolled back": {end: func(r *rig, _ *worker.Worker, _ *act) {
			r.say("m2", "now", session.ModeRollback)
			r.ends("m1", session.StatusInterrupted)
		}, next: "m2", want: ``},
		"undone": {end: func(r *rig, _ *worker.Worker, a *act) {
			a.reply("ok")
			r.ends("m1", session.StatusDone)
			r.free("undo")
			r.say("", "/undo")
		}, want: ``},
		"anew": {end: func(r *rig, _ *worker.Worker, a *act) {
			a.reply("ok")
			r.ends("m1", session.StatusDone)
			r.say("", "/new")
		}, want: ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.stage = newStage()
			w := r.worker(r.stage)
			r.say("m1", "hello")
			a := r.stage.next(t, "m1")
			expect.Equal(t, "state at first", string(a.State), "")
			a.keep(`{"id":0}`)
			a.keep(`{"id":1}`)
			c.end(r, w, a)
			if c.next == "" {
				r.say("m9", "again")
				c.next = "m9"
			}
			b := r.stage.next(t, c.next)
			expect.Equal(t, "state", string(b.State), c.want)
			b.reply("ok")
			r.ends(c.next, session.StatusDone)
			// The agent has stored no state since, so no state fits this transcript.
			r.say("m10", "once more")
			expect.Equal(t, "state after a turn that kept nothing", string(r.stage.next(t, "m10").State), "")
			for _, e := range r.events(r.key) {
				if e.Type == session.EventState {
					t.Error("the state is shown")
				}
			}
		})
	}
}

// After a rollback the next turn gets no state, even if the turn that was rolled back had set
// none: the state of before may contain that turn.
func TestStateBeforeARollback(t *testing.T) {
	t.Parallel()
	r, s, a := inTurn(t)
	a.keep(`{"id":1}`)
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	r.say("m2", "again")
	expect.Equal(t, "state", string(s.next(t, "m2").State), `{"id":1}`)
	r.say("m3", "instead", session.ModeRollback)
	r.ends("m2", session.StatusInterrupted)
	b := s.next(t, "m3")
	expect.Equal(t, "state after the rollback", string(b.State), "")
	expect.Equal(t, "history", len(b.History), 2)
	b.reply("ok")
}

// Turns of several messages, collected or steered in, pass their state to the next turns under
// the same claim. A failed attempt passes it to the next attempt.
func TestStateReachesTheNextTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := steerStage{newStage()}
	r.worker(s, line(session.QueueSettings{Debounce: session.Millis(time.Millisecond)}))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.keep(`1`)
	a.text("one")
	r.say("m2", "/steer to the left")
	r.say("m3", "that", session.ModeCollect)
	r.say("m4", "this", session.ModeCollect)
	a.steer(t, "m2").Accept()
	a.reply("two")

	b := s.next(t, "m3")
	expect.Equal(t, "messages", len(b.Messages), 2)
	expect.Equal(t, "after a steer", string(b.State), `1`)
	b.keep(`2`)
	r.say("m5", "then")
	b.reply("ok")
	c := s.next(t, "m5")
	expect.Equal(t, "after the collected ones", string(c.State), `2`)
	c.keep(`3`)
	r.say("m6", "last")
	c.fail(agent.Retryable(errors.New("try again")))
	c = s.next(t, "m5")
	expect.Equal(t, "attempt and state", fmt.Sprint(c.Attempt, " ", string(c.State)), `2 3`)
	c.keep(`3`) // the same state is stored again for the longer transcript
	c.reply("ok")
	d := s.next(t, "m6")
	expect.Equal(t, "at last", string(d.State), `3`)
	d.reply("ok")
	r.ends("m6", session.StatusDone)
}

// A turn whose agent has set no state yet keeps the stored one, in case it fails or its worker dies.
func TestStateOfATurnThatHasSetNone(t *testing.T) {
	t.Parallel()
	r, s, a := inTurn(t)
	a.keep(`{"id":1}`)
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	r.say("m2", "again")
	b := s.next(t, "m2")
	b.text("so far")
	r.awaitEvent("a batch of events", func(e session.Event) bool { return e.Text == "so far" })
	b.fail(errors.New("x"))
	r.ends("m2", session.StatusFailed)
	r.say("m3", "once more")
	c := s.next(t, "m3")
	expect.Equal(t, "state", string(c.State), `{"id":1}`)
	c.reply("ok")
}

// The state is stored during the turn, in case the worker dies.
func TestStateIsStoredDuringTheTurn(t *testing.T) {
	t.Parallel()
	r, _, a := inTurn(t)
	a.keep(`{"id":1}`)
	expect.Soon(t, "the state", func() bool { return strings.Contains(r.rdb.Get(r.ctx, r.k.State()).Val(), `{"id":1}`) })
	a.reply("ok")
}

// A turn's usage is in its end and in its last entry.
func TestUsage(t *testing.T) {
	t.Parallel()
	r, s, a := inTurn(t)
	a.use(session.Usage{Model: "m", InputTokens: 10, OutputTokens: 2, CostUSD: 0.5, ContextTokens: 12})
	a.text("one")
	a.use(session.Usage{InputTokens: 20, OutputTokens: 3, CachedTokens: 5, CostUSD: 0.25, ContextTokens: 23, ContextLimit: 100})
	a.reply("")
	want := session.Usage{Model: "m", InputTokens: 30, CachedTokens: 5, OutputTokens: 5, CostUSD: 0.75, ContextTokens: 23, ContextLimit: 100}
	o := r.ends("m1", session.StatusDone)
	if o.Usage == nil || *o.Usage != want {
		t.Errorf("outcome: %+v", o.Usage)
	}
	entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), o.TranscriptID)
	expect.OK(t, err)
	if last := entries[len(entries)-1]; last.Usage == nil || *last.Usage != want || entries[0].Usage != nil {
		t.Errorf("entries: %+v", entries)
	}
	r.say("m2", "again")
	s.next(t, "m2").reply("ok")
	if u := r.ends("m2", session.StatusDone).Usage; u != nil {
		t.Errorf("an agent that tells none: %+v", u)
	}
}

// An agent's raw events are passed on, those that are too long without their data.
func TestRawEvents(t *testing.T) {
	t.Parallel()
	r, _, a := inTurn(t)
	a.Emit(agent.Event{Type: session.EventRaw, Name: "plan", Data: json.RawMessage(`{"a":1}`)})
	a.Emit(agent.Event{Type: session.EventRaw, Name: "big", Data: json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", 100_000)))})
	a.Emit(agent.Event{Type: session.EventNotice, Text: "mind the gap"})
	plan := r.awaitEvent("plan", func(e session.Event) bool { return e.Name == "plan" })
	expect.Equal(t, "plan", string(plan.Data), `{"a":1}`)
	big := r.awaitEvent("big", func(e session.Event) bool { return e.Name == "big" })
	expect.Equal(t, "big", big.Text+string(big.Data), "100002 bytes are left out")
	r.awaitEvent("notice", func(e session.Event) bool { return e.Type == session.EventNotice && e.Text == "mind the gap" })
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant ok")
}
