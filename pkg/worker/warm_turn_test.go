package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

func warmAgents(n int) change { return with(func(o *worker.Config) { o.WarmAgents = n }) }

// turn runs a message on a certain agent; it must succeed.
func (r *rig) turn(s *warmStage, id string, by int) *act {
	r.Helper()
	r.say(id, "about "+id)
	a := s.nextBy(r, id, by)
	a.reply("ok " + id)
	r.ends(id, session.StatusDone)
	return a
}

// elsewhere runs a turn on another worker, and drains that. The rig's own worker must have no
// free slot meanwhile.
func (r *rig) elsewhere(id string) {
	r.Helper()
	s := newStage()
	w := r.worker(s)
	r.say(id, "about "+id)
	s.next(r, id).reply("ok " + id)
	r.ends(id, session.StatusDone)
	expect.Received(r, "the end of the other worker", drain(w))
}

// busy occupies a slot of the worker that has the stage until free is called.
func (r *rig) busy(s *warmStage) (free func()) {
	r.Helper()
	key, id := r.key+".busy", turnstile.NewMessageID()
	r.send(key, turnstile.Message{ID: id, Text: "busy"})
	a := s.next(r, id)
	return func() {
		r.Helper()
		a.reply("done")
		r.outcomeIn(key, id)
	}
}

// foreign runs a turn of the rig's session on a worker other than that of s, which has one slot.
func (r *rig) foreign(s *warmStage, id string) {
	r.Helper()
	free := r.busy(s)
	r.elsewhere(id)
	free()
}

func TestB46_AnotherTranscriptIDReusesTheAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	r.worker(s, slots(1), warmAgents(5))
	first := r.turn(s, "m1", 1)
	r.turn(s, "m2", 1)
	fresh, err := r.client.Session(r.key).NewTranscript(r.ctx)
	expect.OK(t, err)
	a := r.turn(s, "m3", 1)
	if a.TranscriptID != fresh || a.TranscriptID == first.TranscriptID || len(a.History) != 0 {
		t.Errorf("session id %s after %s, %d entries of history", a.TranscriptID, first.TranscriptID, len(a.History))
	}
	r.turn(s, "m4", 1)
	r.foreign(s, "m5") // the present transcript is guarded like the first
	r.turn(s, "m6", 3) // 2 was busy
}

func TestB47_AWarmAgentKeepsItsSignatureAndCount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	s.sign("model 1")
	w := r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	if _, ok := w.WarmAgent(r.key); ok {
		t.Error("the agent can be evicted from under its turn")
	}
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	kept, ok := w.WarmAgent(r.key)
	expect.Equal(t, "kept", ok, true)
	expect.Equal(t, "entry", kept, worker.WarmAgent{Signature: "model 1", TranscriptID: a.TranscriptID, Entries: 2})
	s.sign("model 2")
	r.turn(s, "m2", 2)
	expect.List(t, "story", s.lines(), "build 1", "run 1", "close 1", "closed 1", "build 2", "run 2")
}

// The transcript changes during a turn: the turn ends in the old one, and its count is not used for
// the new one.
func TestB48_RotationInMidTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	w := r.worker(s, slots(1))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	fresh, err := r.client.Session(r.key).NewTranscript(r.ctx, turnstile.TranscriptConfig{Replaces: a.TranscriptID})
	expect.OK(t, err)
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	kept, _ := w.WarmAgent(r.key)
	expect.Equal(t, "entry", kept, worker.WarmAgent{TranscriptID: a.TranscriptID, Entries: 2})
	b := r.turn(s, "m2", 1)
	expect.Equal(t, "session id", b.TranscriptID, fresh)
	kept, _ = w.WarmAgent(r.key)
	expect.Equal(t, "entry in the new transcript", kept, worker.WarmAgent{TranscriptID: fresh, Entries: 2})
}

func TestB49_OwnTurns(t *testing.T) {
	t.Parallel()
	t.Run("five claims", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := newWarmStage()
		r.worker(s)
		for i := range 5 {
			r.turn(s, fmt.Sprint("m", i), 1)
		}
		r.free("after the turns")
	})
	t.Run("one claim", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := newWarmStage()
		r.worker(s)
		for i := range 5 {
			r.say(fmt.Sprint("m", i), "hello")
		}
		for i := range 5 {
			s.nextBy(t, fmt.Sprint("m", i), 1).reply("ok")
		}
		r.ends("m4", session.StatusDone)
	})
}

func TestB50_ForeignWriteRebuilds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	r.worker(s, slots(1), warmAgents(5))
	r.turn(s, "m1", 1)
	r.foreign(s, "m2")
	a := r.turn(s, "m3", 3)
	expect.Equal(t, "entries that the new agent is given", len(a.History), 4)
	r.turn(s, "m4", 3)
	expect.List(t, "story", s.lines(), "build 1", "run 1", "build 2", "run 2", "close 1", "closed 1", "build 3", "run 3", "run 3")
}

func TestB51_StatelessAgentIsReused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	s.stateless = true
	w := r.worker(s, slots(1), warmAgents(5))
	r.turn(s, "m1", 1)
	r.foreign(s, "m2")
	r.turn(s, "m3", 1)
	kept, _ := w.WarmAgent(r.key)
	expect.Equal(t, "count", kept.Entries, -1)
}

// An agent is built while its worker loses the session and claims it again: the second turn does
// not touch the first one's agent, and has its own.
func TestB51_AgentBeingBuiltIsNotTouched(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	gate := s.gate(s.building, 1)
	w := r.worker(s, sentinelTTL(expect.Lease(time.Second)))
	r.say("m1", "hello")
	s.happened(t, "build 1")
	expect.OK(t, r.rdb.Del(r.ctx, r.k.Sentinel()).Err())
	s.nextBy(t, "m1", 2).reply("ok")
	r.ends("m1", session.StatusDone)
	before, _ := w.WarmAgent(r.key)
	s.canceled(t, 1)
	close(gate)
	s.happened(t, "closed 1")
	after, ok := w.WarmAgent(r.key)
	if !ok || after != before {
		t.Errorf("%+v became %+v", before, after)
	}
	r.turn(s, "m2", 2)
	expect.List(t, "story", s.lines(), "build 1", "build 2", "run 2", "close 1", "closed 1", "run 2")
}

func TestATurnThatEndsBadlyClosesItsAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(r *rig, a *act)
		status session.Status
		change change
	}{
		"error":   {func(_ *rig, a *act) { a.fail(errors.New("no")) }, session.StatusFailed, nil},
		"panic":   {func(_ *rig, a *act) { a.reply("panic") }, session.StatusFailed, nil},
		"stop":    {func(r *rig, _ *act) { r.say("", "/stop") }, session.StatusStopped, nil},
		"timeout": {func(*rig, *act) {}, session.StatusFailed, with(func(o *worker.Config) { o.AgentTimeout = time.Second })},
		"interrupt": {func(r *rig, _ *act) {
			r.send(r.key, turnstile.Message{ID: "m3", Text: "now", Mode: session.ModeInterrupt})
		}, session.StatusInterrupted, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newWarmStage()
			gate := s.gate(s.closing, 1)
			changes := []change{sentinelTTL(time.Minute)}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			w := r.worker(s, changes...)
			r.turn(s, "m1", 1)
			r.say("m2", "hello")
			c.end(r, s.nextBy(t, "m2", 1))
			s.happened(t, "close 1")
			if r.token() == "" {
				t.Error("the sentinel was released before the agent had ended")
			}
			close(gate)
			r.ends("m2", c.status)
			if name != "interrupt" {
				if _, ok := w.WarmAgent(r.key); ok {
					t.Error("an agent is kept")
				}
				r.say("m3", "again")
			}
			s.nextBy(t, "m3", 2).reply("ok")
			r.ends("m3", session.StatusDone)
		})
	}
}

// A turn that another owner has taken over closes its agent, too.
func TestALostTurnClosesItsAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	w := r.worker(s, sentinelTTL(expect.Lease(time.Second)))
	r.turn(s, "m1", 1)
	r.say("m2", "hello")
	a := s.nextBy(t, "m2", 1)
	expect.OK(t, r.rdb.Set(r.ctx, r.k.Sentinel(), "a thief's", time.Hour).Err())
	_ = a.cause(t)
	s.happened(t, "closed 1")
	expect.Soon(t, "the end of the turn", func() bool { return w.Status().Running == 0 })
	if _, ok := w.WarmAgent(r.key); ok {
		t.Error("an agent is kept")
	}
}

// The agent has finished, but its end cannot be written: the session is lost.
func TestAnUnwrittenEndClosesItsAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	w := r.worker(s, sentinelTTL(time.Minute))
	r.say("m1", "hello")
	a := s.nextBy(t, "m1", 1)
	expect.OK(t, r.rdb.Set(r.ctx, r.k.Sentinel(), "a thief's", time.Hour).Err())
	a.reply("ok")
	s.happened(t, "closed 1")
	if _, ok := w.WarmAgent(r.key); ok {
		t.Error("an agent is kept")
	}
}

// An agent that had finished before it was interrupted is kept warm.
func TestAnInterruptThatComesTooLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	s.deaf = true
	r.worker(s)
	r.say("m1", "hello")
	a := s.nextBy(t, "m1", 1)
	r.say("m2", "now", session.ModeInterrupt)
	_ = a.cause(t)
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	s.nextBy(t, "m2", 1).reply("ok")
	r.ends("m2", session.StatusDone)
}

func TestNoWarmAgents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	gate := s.gate(s.closing, 1)
	r.worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) { return agent.RunOnce(ctx, s, turn) }))
	r.say("m1", "hello")
	s.nextBy(t, "m1", 1).reply("ok")
	s.happened(t, "close 1")
	if r.token() == "" {
		t.Error("the sentinel was released before the agent had ended")
	}
	close(gate)
	r.ends("m1", session.StatusDone)
	r.turn(s, "m2", 2)
}

// A Close that hangs delays only a session that waits for it, and the drain.
func TestACloseThatHangs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	gate := s.gate(s.closing, 1)
	w := r.worker(s, slots(1), warmAgents(1))
	r.turn(s, "m1", 1)
	r.busy(s)() // its agent replaces the first in the pool
	s.happened(t, "close 1")
	r.turn(s, "m2", 3) // this evicts the second
	s.happened(t, "closed 2")
	drained := drain(w)
	s.happened(t, "closed 3")
	select {
	case <-drained:
		t.Error("the drain did not wait for the agent's end")
	default:
	}
	close(gate)
	expect.Received(t, "the end of the drain", drained)
}

// The old agent of a session may take as long as a turn to close, but no longer.
func TestACloseThatHangsBeforeARebuild(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	gate := s.gate(s.closing, 1)
	r.worker(s, with(func(o *worker.Config) { o.AgentTimeout = 500 * time.Millisecond }))
	r.turn(s, "m1", 1)
	s.sign("other")
	r.say("m2", "hello")
	r.ends("m2", session.StatusFailed)
	r.turn(s, "m3", 2)
	close(gate)
}

func TestDrainClosesWarmAgents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	w := r.worker(s, drainTimeout(time.Minute))
	r.turn(s, "m1", 1)
	r.say("m2", "hello")
	a := s.nextBy(t, "m2", 1)
	done := make(chan bool, 1)
	go func() {
		w.Drain(context.Background(), worker.ReasonRestart)
		done <- true
	}()
	r.awaitEvent("the notice", func(e session.Event) bool { return e.Type == session.EventNotice })
	a.reply("ok")
	expect.Received(t, "the end of the drain", done)
	expect.List(t, "story", s.lines(), "build 1", "run 1", "run 1", "close 1", "closed 1")
}

// An agent that ended between two turns is replaced, and the message has its first attempt with
// the new one.
func TestAnAgentThatEndedBetweenTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newWarmStage()
	r.worker(s)
	r.turn(s, "m1", 1)
	s.dies(1)
	a := r.turn(s, "m2", 2)
	if a.Attempt != 1 || len(a.History) != 2 {
		t.Errorf("attempt %d, %d entries of history", a.Attempt, len(a.History))
	}
	r.turn(s, "m3", 2)
	expect.List(t, "story", s.lines(), "build 1", "run 1", "close 1", "closed 1", "build 2", "run 2", "run 2")
}

// The warm agent of a session ends before another agent of the session runs, whether that is kept warm or not.
func TestAnotherAgentClosesTheWarmOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, cold, other := newWarmStage(), newStage(), newWarmStage()
	w := r.worker(s, with(func(c *worker.Config) {
		c.Agents = []worker.NamedAgent{{Name: "cold", Sessions: []string{"*"}, Agent: cold}, {Name: "warm", Sessions: []string{r.key}, Agent: other}}
	}))
	change := func(name string) {
		t.Helper()
		_, err := r.client.Session(r.key).NewTranscript(r.ctx, turnstile.TranscriptConfig{Agent: name})
		expect.OK(t, err)
	}
	change("warm")
	r.turn(other, "m1", 1)
	gate := other.gate(other.closing, 1)
	change("cold")
	r.say("m2", "hello")
	other.happened(t, "close 1")
	cold.empty(t)
	close(gate)
	cold.next(t, "m2").reply("ok")
	r.ends("m2", session.StatusDone)
	if _, kept := w.WarmAgent(r.key); kept {
		t.Error("an agent is kept")
	}
	change("default")
	r.turn(s, "m3", 1)
	change("warm")
	r.turn(other, "m4", 2)
	expect.List(t, "story", s.lines(), "build 1", "run 1", "close 1", "closed 1")
}
