package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

func waitingAgents(n int) change { return with(func(c *worker.Config) { c.WaitingAgents = n }) }

// hello sends a message to another session, and returns its turn.
func (r *rig) hello(s *stage, key, id string) *act {
	r.Helper()
	r.send(key, turnstile.Message{ID: id, Text: "hello"})
	return s.next(r, id)
}

// lends returns the turn of m1, which waits for its user while another session has the worker's only slot.
func lends(t *testing.T, changes ...change) (r *rig, w *worker.Worker, s *stage, a, other *act, got <-chan decided) {
	t.Helper()
	r, w, s, a, other, got, _ = lendsUntil(t, changes...)
	return r, w, s, a, other, got
}

// lendsUntil is lends of an agent that may give its question up.
func lendsUntil(t *testing.T, changes ...change) (r *rig, w *worker.Worker, s *stage, a, other *act, got <-chan decided, giveUp func()) {
	t.Helper()
	r, s = newRig(t), newStage()
	w = r.worker(s, append([]change{slots(1), parkAfter(time.Millisecond)}, changes...)...)
	r.say("m1", "hello")
	a = s.next(t, "m1")
	ctx, giveUp := context.WithCancel(a.ctx)
	t.Cleanup(giveUp)
	got = a.ask(ctx, r, "run make")
	r.asked("1")
	other = r.hello(s, "other", "o1")
	expect.Equal(t, "the worker", fmt.Sprint(w.Status()), fmt.Sprint(worker.Status{Slots: 1, Running: 2, Waiting: 1}))
	return r, w, s, a, other, got, giveUp
}

// However its question ends, a turn goes on only with a slot: at no moment do more agents work than there are slots.
func TestTurnGoesOnWithASlot(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(r *rig, giveUp func()){
		"approved":     func(r *rig, _ func()) { r.command("/approve 1", "Approved question 1: run make.") },
		"denied":       func(r *rig, _ func()) { r.command("/deny 1", "Denied question 1: run make.") },
		"given up":     func(_ *rig, giveUp func()) { giveUp() },
		"not in time":  nil,
		"and given up": func(r *rig, giveUp func()) { r.command("/approve 1", "Approved question 1: run make."); giveUp() },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			timeout := patience
			if end == nil {
				timeout = expect.Lease(2 * time.Second)
			}
			r, w, _, a, b, got, giveUp := lendsUntil(t, askTimeout(timeout))
			if end != nil {
				end(r, giveUp)
			}
			expect.Soon(t, "the turn to want a slot", func() bool { return w.SlotsInUse() == [3]int{1, 1, 1} || len(got) > 0 })
			if len(got) > 0 {
				t.Fatalf("it goes on without a slot: %+v", <-got)
			}
			expect.Equal(t, "the other session's turn", fmt.Sprint(w.Status()), fmt.Sprint(worker.Status{Slots: 1, Running: 2, Waiting: 1}))
			b.reply("hi")
			expect.Received(t, "the end of the question", got)
			expect.Equal(t, "slots", w.SlotsInUse(), [3]int{1})
			a.reply("over")
			r.ends("m1", session.StatusDone)
			unused(t, w)
		})
	}
}

// unused checks that no slot is taken when nothing runs.
func unused(t *testing.T, w *worker.Worker) {
	t.Helper()
	expect.Soon(t, "the end of all turns", func() bool { return w.Status().Running == 0 && w.SlotsInUse() == [3]int{} })
}

// A turn that waits for its user lends its slot, and takes one when the user has decided, before the next turn of
// the session that has it, and before other sessions.
func TestWaitingTurnLendsItsSlot(t *testing.T) {
	t.Parallel()
	r, w, s, a, b, got := lends(t)
	b.reply("hi")
	expect.Equal(t, "the other session", r.outcomeIn("other", "o1").Status, session.StatusDone)
	b = r.hello(s, "other", "o2")
	r.send("other", turnstile.Message{ID: "o3", Text: "hello"})
	r.send("third", turnstile.Message{ID: "t1", Text: "hello"})
	r.command("/approve 1", "Approved question 1: run make.")
	expect.Equal(t, "the event", r.decided("1"), session.Allow)
	expect.Soon(t, "the turn to want a slot", func() bool { return w.SlotsInUse() == [3]int{1, 1, 1} })
	b.reply("hi")
	expect.Equal(t, "the decision", expect.Received(t, "the decision", got), decided{session.Allow, nil})
	expect.Equal(t, "the worker", w.Status().Waiting, 0)
	s.empty(t)
	a.reply("made")
	r.ends("m1", session.StatusDone)
	for range 2 {
		expect.Received(t, "a turn that waited in line", s.acts).reply("hi")
	}
	expect.Equal(t, "the session that made room", r.outcomeIn("other", "o3").Status, session.StatusDone)
	expect.Equal(t, "the third session", r.outcomeIn("third", "t1").Status, session.StatusDone)
	unused(t, w)
}

// At the bound, the next turn keeps its slot, until it can take the place of one that was decided.
func TestTurnsThatWaitWithoutASlotAreBounded(t *testing.T) {
	t.Parallel()
	r, w, _, a, b, got := lends(t, waitingAgents(1))
	other := b.ask(b.ctx, r, "run rm")
	expect.Soon(t, "the other question", func() bool {
		info, err := r.client.Session("other").Info(r.ctx)
		return err == nil && info.Question != nil
	})
	expect.Equal(t, "the worker", fmt.Sprint(w.Status()), fmt.Sprint(worker.Status{Slots: 1, Running: 2, Waiting: 1}))
	r.command("/approve 1", "Approved question 1: run make.")
	expect.Equal(t, "the decision", expect.Received(t, "the decision", got), decided{session.Allow, nil})
	expect.Equal(t, "the worker", fmt.Sprint(w.Status()), fmt.Sprint(worker.Status{Slots: 1, Running: 2, Waiting: 1}))
	_, err := r.client.Session("other").Decide(r.ctx, "1", session.Deny)
	expect.OK(t, err)
	a.reply("made")
	expect.Equal(t, "the other decision", expect.Received(t, "the decision", other), decided{session.Deny, nil})
	b.reply("not removed")
	expect.Equal(t, "the other session", r.outcomeIn("other", "o1").Status, session.StatusDone)
	unused(t, w)
}

// Where no turn may wait without a slot, each keeps it.
func TestNoTurnWaitsWithoutASlot(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	w := r.worker(s, slots(1), parkAfter(time.Millisecond), waitingAgents(-1), with(func(c *worker.Config) { c.AskTimeout = time.Second }))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.send("other", turnstile.Message{ID: "o1", Text: "hello"})
	d, err := a.Ask(a.ctx, agent.Question{Name: "run make"})
	expect.OK(t, err)
	expect.Equal(t, "the decision", d, session.Deny)
	s.empty(t)
	a.reply("not made")
	s.next(t, "o1").reply("hi")
	expect.Equal(t, "the other session", r.outcomeIn("other", "o1").Status, session.StatusDone)
	unused(t, w)
}

// A turn that waits without a slot ends at once, whatever ends it, and its session's next turn needs a slot.
func TestTurnWithoutASlotEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(r *rig)
		status session.Status
		change change
	}{
		"stop":      {func(r *rig) { r.command("/stop", "Stopping the running turn.") }, session.StatusStopped, slots(1)},
		"interrupt": {func(r *rig) { r.say("m2", "no", session.ModeInterrupt) }, session.StatusInterrupted, slots(1)},
		"timeout":   {nil, session.StatusFailed, with(func(c *worker.Config) { c.AgentTimeout = time.Second })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newRig(t), newStage()
			w := r.worker(s, slots(1), parkAfter(time.Millisecond), c.change)
			r.say("m1", "hello")
			a := s.next(t, "m1")
			got := a.ask(a.ctx, r, "run make")
			r.asked("1")
			expect.Soon(t, "the lent slot", func() bool {
				return fmt.Sprint(w.Status()) == fmt.Sprint(worker.Status{Slots: 1, Running: 1, Waiting: 1})
			})
			if name == "timeout" { // it would end a turn beside it, too
				r.ends("m1", c.status)
				unused(t, w)
				return
			}
			r.send("other", turnstile.Message{ID: "o1", Text: "hello"})
			b := s.next(t, "o1")
			if name != "interrupt" {
				r.say("m2", "again")
			}
			c.end(r)
			if err := expect.Received(t, "the end of the question", got).err; err == nil {
				t.Error("a decision")
			}
			r.ends("m1", c.status)
			if name == "stop" { // it has stopped this one, too
				r.say("m3", "again")
			}
			expect.Soon(t, "the session's end", func() bool { return fmt.Sprint(w.Status()) == fmt.Sprint(worker.Status{Slots: 1, Running: 1}) })
			s.empty(t)
			b.reply("hi")
			next := expect.Received(t, "the session's next turn", s.acts)
			next.reply("hi")
			r.ends(next.Messages[0].ID, session.StatusDone)
			unused(t, w)
		})
	}
}

// A drain does not wait for a decision: such a turn is interrupted at once, and its next run asks again. Others go on.
func TestDrainOfTurnsWithoutASlot(t *testing.T) {
	t.Parallel()
	r, w, _, _, b, got := lends(t, drainTimeout(time.Hour))
	drained := drain(w)
	if err := expect.Received(t, "the end of the question", got).err; err == nil || !strings.Contains(err.Error(), "the worker drains") {
		t.Errorf("the question ends with %v", err)
	}
	next := newStage()
	r.worker(next, parkAfter(time.Millisecond))
	again := next.next(t, "m1")
	got = again.ask(again.ctx, r, "run make")
	r.asked("2")
	r.command("/approve 2", "Approved question 2: run make.")
	expect.Equal(t, "the decision", expect.Received(t, "the decision", got), decided{session.Allow, nil})
	again.reply("hi")
	r.ends("m1", session.StatusDone)
	b.reply("hi")
	expect.Received(t, "the end of the drain", drained)
	expect.Equal(t, "slots in use", w.SlotsInUse(), [3]int{})
}

// A turn that loses its lease without a slot ends, and leaves the worker's slots as they were.
func TestLeaseLostWithoutASlot(t *testing.T) {
	t.Parallel()
	r, w, s, a, b, got := lends(t, sentinelTTL(expect.Lease(time.Second)))
	expect.OK(t, r.rdb.Set(r.ctx, r.k.Sentinel(), "a thief's", time.Hour).Err())
	if err := expect.Received(t, "the end of the question", got).err; !errors.Is(err, agent.ErrLeaseLost) {
		t.Errorf("the question ends with %v", err)
	}
	if err := a.cause(t); !errors.Is(err, agent.ErrLeaseLost) {
		t.Errorf("the turn ends with %v", err)
	}
	expect.Soon(t, "the turn's end", func() bool { return fmt.Sprint(w.Status()) == fmt.Sprint(worker.Status{Slots: 1, Running: 1}) })
	b.reply("hi")
	r.hello(s, "third", "t1").reply("hi")
	expect.Equal(t, "the third session", r.outcomeIn("third", "t1").Status, session.StatusDone)
	unused(t, w)
}

// The worker of a turn that waits without a slot is killed. The turn runs again on another one, and asks again.
func TestKilledWithATurnWithoutASlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.process("one", job{TTL: expect.Lease(time.Second), Concurrency: 1, Park: time.Millisecond})
	r.say("m1", "ask=deploy hello")
	r.asked("1")
	r.send("other", turnstile.Message{ID: "o1", Text: "hello"})
	expect.Equal(t, "the other session", r.outcomeIn("other", "o1").Status, session.StatusDone)
	one.kill()
	r.process("two", heir)
	r.asked("2")
	r.command("/approve 2", "Approved question 2: deploy.")
	expect.Equal(t, "the reply", r.ends("m1", session.StatusDone).Reply, "echo: hello")
}

// Two sessions share one slot in turns.
func TestTurnShare(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const messages, share = 100, 10
	var mu sync.Mutex
	var order []string
	a := immediate{func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, turn.Session)
		return agent.Result{Text: "ok"}, nil
	}}
	one, two := r.key+"-one", r.key+"-two"
	for i := range messages {
		for _, key := range []string{one, two} {
			r.send(key, turnstile.Message{ID: fmt.Sprint(i), Text: "x"})
		}
	}
	r.worker(a, slots(1), with(func(o *worker.Config) { o.ShareTurns(share) }))
	for _, key := range []string{one, two} {
		r.outcomeIn(key, fmt.Sprint(messages-1))
	}
	mu.Lock()
	defer mu.Unlock()
	expect.Equal(t, "turns", len(order), 2*messages)
	longest, run := 0, 0
	for i := range order {
		if i > 0 && order[i] != order[i-1] {
			run = 0
		}
		run++
		longest = max(longest, run)
	}
	// The worker checks only every 20 ms whether others wait, but then at each turn.
	if longest > 3*share {
		t.Errorf("one session ran %d turns while the other waited, its share is %d", longest, share)
	}
	t.Logf("the longest run was %d turns", longest)
}

// A session that has had its share continues if no other waits.
func TestShareIsOnlyForOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 30 {
		r.say(fmt.Sprint(i), "x")
	}
	tokens := make(chan string, 30)
	r.worker(immediate{func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		tokens <- r.rdb.Get(ctx, r.k.Sentinel()).Val()
		return agent.Result{Text: "ok"}, nil
	}}, with(func(o *worker.Config) { o.ShareTurns(1) }))
	r.ends("29", session.StatusDone)
	close(tokens)
	claims := map[string]bool{}
	for token := range tokens {
		claims[token] = true
	}
	// The first sweep may have woken the session once more: then it waits for itself.
	if len(claims) > 2 {
		t.Errorf("the session was claimed %d times", len(claims))
	}
	var fences []int64
	for _, e := range r.events(r.key) {
		if e.Type == session.EventTurnStarted {
			fences = append(fences, e.Fence)
		}
	}
	expect.Equal(t, "turns", len(fences), 30)
	if !slices.IsSorted(fences) || len(slices.Compact(fences)) != 30 {
		t.Errorf("the fences do not rise: %v", fences)
	}
}
