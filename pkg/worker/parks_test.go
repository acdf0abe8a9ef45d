package worker_test

import (
	"errors"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

func parkAfter(d time.Duration) change { return with(func(c *worker.Config) { c.ParkAfter = d }) }

// asks asks for permission to pay, as every run of its turn does.
func (a *act) asks() (session.Decision, error) {
	return a.Ask(a.ctx, agent.Question{Key: "pay", CallID: "c1", Name: "pay"})
}

// parks asks, and gives the turn up.
func (a *act) parks(t testing.TB) {
	t.Helper()
	_, err := a.asks()
	if !errors.Is(err, agent.ErrParked) {
		t.Fatalf("the question ends with %v", err)
	}
	a.fail(err)
}

// parked waits until the message's turn is parked.
func (r *rig) parked(id string) session.Info {
	r.Helper()
	r.awaitEvent("the park", func(e session.Event) bool {
		return e.Type == session.EventTurnRequeued && e.Reason == session.ReasonParked && e.Messages[0] == id
	})
	return r.info()
}

// A turn waits for its user without a worker: its only slot runs another session meanwhile, the worker ends,
// and another one runs the turn when the user has decided. A second decision is refused.
func TestTurnWaitsWithoutAWorker(t *testing.T) {
	t.Parallel()
	r, s, next := newRig(t), newStage(), newStage()
	w := r.worker(s, slots(1), parkAfter(time.Millisecond), drainTimeout(time.Minute))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.begin(t, spec("before"), agent.StepNew)
	a.finish(t, spec("before"), ok("1"))
	a.parks(t)
	info := r.parked("m1")
	if q := info.Question; q == nil || q.Number != 1 || q.Name != "pay" || info.Worker != "" {
		t.Errorf("the session: %+v", info)
	}
	r.free("while it waits")
	r.submit("other", turnstile.Message{ID: "o1", Text: "hello"})
	s.next(t, "o1").reply("hi")
	expect.Equal(t, "the other session", r.outcomeIn("other", "o1").Status, session.StatusDone)
	expect.Received(t, "the end of the drain", drain(w))

	r.command("/approve 1", "Approved question 1: pay.")
	r.command("/approve 1", "That question was already decided.")
	r.worker(next)
	b := next.next(t, "m1")
	if b.Note != "" || b.Attempt != 1 || b.Redelivered {
		t.Errorf("the next run has the note %q, attempt %d, redelivered %v", b.Note, b.Attempt, b.Redelivered)
	}
	b.begin(t, spec("before"), agent.StepDone)
	d, err := b.asks()
	expect.OK(t, err)
	expect.Equal(t, "the decision", d, session.Allow)
	expect.Equal(t, "the event", r.decided("1"), session.Allow)
	b.reply("paid")
	r.ends("m1", session.StatusDone)
	if q := r.info().Question; q != nil {
		t.Errorf("a question is left: %+v", q)
	}
}

// A worker that drains parks turns that wait, at once. One that is decided while its agent winds down goes on
// at once.
func TestDrainParksWhatWaits(t *testing.T) {
	t.Parallel()
	r, s, next := newRig(t), newStage(), newStage()
	w := r.worker(s, parkAfter(time.Hour), drainTimeout(time.Minute))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	waits := make(chan error, 1)
	go func() { _, err := a.asks(); waits <- err }()
	r.asked("1")
	drained := drain(w)
	err := expect.Received(t, "the end of the question", waits)
	if !errors.Is(err, agent.ErrParked) {
		t.Fatal(err)
	}
	r.command("/deny", "Denied question 1: pay.")
	a.fail(err)
	expect.Received(t, "the end of the drain", drained)
	r.worker(next)
	b := next.next(t, "m1")
	d, err := b.asks()
	expect.OK(t, err)
	expect.Equal(t, "the decision", d, session.Deny)
	b.reply("not paid")
	r.ends("m1", session.StatusDone)
}

// Without a decision in time, the turn runs again and learns that it is denied, however often its worker dies.
func TestNobodyDecidesAParkedTurn(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, parkAfter(time.Millisecond), with(func(c *worker.Config) { c.AskTimeout = 3 * time.Second }))
	r.say("m1", "hello")
	s.next(t, "m1").parks(t)
	r.wake() // the due index, too, has it, but nobody does the job here
	r.parked("m1")
	expect.OK(t, r.rdb.HSet(r.ctx, r.k.Run(), "hold", "1 "+r.rdb.LIndex(r.ctx, r.k.Active(), 0).Val(), "questions", "1 1 1 1").Err())
	r.wake()
	b := s.next(t, "m1")
	d, err := b.asks()
	expect.OK(t, err)
	expect.Equal(t, "the decision", d, session.Deny)
	b.reply("not paid")
	r.ends("m1", session.StatusDone)
}

// /stop ends a turn that waits, and a late decision is refused.
func TestStopOfATurnThatWaits(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, parkAfter(time.Millisecond))
	r.say("m1", "hello")
	s.next(t, "m1").parks(t)
	r.parked("m1")
	r.command("/stop", "Ending the turn that waits to go on.")
	r.command("/approve 1", "There is no open question.")
	r.ends("m1", session.StatusStopped)
	s.empty(t)
}

// The decision of one turn's question is not that of the next turn's with the same key.
func TestDecisionOfAnotherTurn(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, parkAfter(time.Millisecond))
	r.say("m1", "hello")
	s.next(t, "m1").parks(t)
	r.parked("m1")
	r.command("/approve 1", "Approved question 1: pay.")
	a := s.next(t, "m1")
	_, err := a.asks()
	expect.OK(t, err)
	a.reply("paid")
	r.ends("m1", session.StatusDone)
	r.say("m2", "again")
	s.next(t, "m2").parks(t)
	expect.Equal(t, "question", r.parked("m2").Question.Number, 2)
	r.command("/deny 2", "Denied question 2: pay.")
	b := s.next(t, "m2")
	d, err := b.asks()
	expect.OK(t, err)
	expect.Equal(t, "the decision", d, session.Deny)
	b.reply("not paid")
	r.ends("m2", session.StatusDone)
}

// A turn with a running step is not parked, and one without a key neither.
func TestTurnsThatAreNotParked(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, parkAfter(time.Millisecond), with(func(c *worker.Config) { c.AskTimeout = 2 * time.Second }))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.begin(t, spec("runs"), agent.StepNew)
	d, err := a.asks()
	expect.OK(t, err)
	expect.Equal(t, "the decision on what waits beside a step", d, session.Deny)
	a.finish(t, spec("runs"), ok("1"))
	d, err = a.Ask(a.ctx, agent.Question{Name: "no key"})
	expect.OK(t, err)
	expect.Equal(t, "the decision on what has no key", d, session.Deny)
	a.reply("done")
	r.ends("m1", session.StatusDone)
}
