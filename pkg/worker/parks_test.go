package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
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
	r.send("other", turnstile.Message{ID: "o1", Text: "hello"})
	s.next(t, "o1").reply("hi")
	expect.Equal(t, "the other session", r.outcomeIn("other", "o1").Status, session.StatusDone)
	expect.Received(t, "the end of the drain", drain(w))

	r.send(r.key, turnstile.Message{ID: "m2", Text: "later", Delay: time.Hour})
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
	expect.Soon(t, "the session waits for its delayed message, not for the end of its question", func() bool {
		at := r.rdb.ZScore(r.ctx, rediskey.Due, r.key).Val()
		return at > float64(time.Now().Add(30*time.Minute).UnixMilli())
	})
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

// While as many turns are parked as may be, of all workers, a further one keeps its slot.
func TestParkedCap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most  int
		parks bool
	}{
		"full":     {1, false},
		"room":     {2, true},
		"no limit": {session.NoLimit, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, j := newRig(t), newJournal("too many are parked")
			capped := with(func(c1 *worker.Config) { c1.ParkedCap, c1.Logger = c.most, slog.New(j) })
			s := newStage()
			w := r.worker(s, parkAfter(time.Millisecond), capped, drainTimeout(time.Minute))
			r.send("first", turnstile.Message{ID: "m1", Text: "hello"})
			s.next(t, "m1").parks(t)
			expect.Received(t, "the end of the drain", drain(w)) // everything of the park is written
			next := newStage()
			r.worker(next, slots(1), parkAfter(time.Millisecond), capped)
			r.say("m2", "hello")
			a := next.next(t, "m2")
			if c.parks {
				a.parks(t)
				expect.Equal(t, "the session", r.parked("m2").Phase, session.PhaseParked)
				return
			}
			decided := make(chan session.Decision, 1)
			go func() { d, _ := a.asks(); decided <- d }()
			expect.Received(t, "the log's line", j.lines)
			info := r.info()
			if q := info.Question; info.Phase != session.PhaseRunning || info.Worker == "" || q == nil {
				t.Errorf("the session: %+v", info)
			}
			r.command("/approve 1", "Approved question 1: pay.")
			expect.Equal(t, "the decision", expect.Received(t, "the decision", decided), session.Allow)
			a.reply("paid")
			r.ends("m2", session.StatusDone)
		})
	}
}

// An agent that begins again asks all of its questions again, and gets each decision, however often it is parked.
func TestSeveralQuestionsOfATurn(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, parkAfter(time.Millisecond))
	r.say("m1", "hello")
	ask := func(a *act, key string) (session.Decision, error) {
		return a.Ask(a.ctx, agent.Question{Key: key, Name: key})
	}
	want := map[string]session.Decision{"a": session.Deny, "b": session.Allow, "c": session.Deny}
	for n, key := range []string{"a", "b", "c"} {
		a := s.next(t, "m1")
		for _, before := range []string{"a", "b", "c"}[:n] {
			d, err := ask(a, before)
			expect.OK(t, err)
			expect.Equal(t, before, d, want[before])
		}
		_, err := ask(a, key)
		if !errors.Is(err, agent.ErrParked) {
			t.Fatalf("%s ends with %v", key, err)
		}
		if _, again := ask(a, "other"); !errors.Is(again, agent.ErrParked) {
			t.Errorf("another question of a turn that is to be parked: %v", again)
		}
		a.fail(agent.ErrParked) // as it is
		e := r.awaitEvent("the park of "+key, func(e session.Event) bool {
			return e.Type == session.EventTurnRequeued && e.Turn == a.ID
		})
		expect.Equal(t, "reason", e.Reason, session.ReasonParked)
		word := map[session.Decision]string{session.Allow: "approve", session.Deny: "deny"}[want[key]]
		if _, err := r.client.Session(r.key).Command(r.ctx, fmt.Sprintf("/%s %d", word, n+1)); err != nil {
			t.Fatal(err)
		}
	}
	last := s.next(t, "m1")
	for _, key := range []string{"a", "b", "c"} {
		d, err := ask(last, key)
		expect.OK(t, err)
		expect.Equal(t, key, d, want[key])
	}
	last.reply("done")
	r.ends("m1", session.StatusDone)
}

// A step that asks is parked before it begins, and runs when the user has decided.
func TestStepThatIsParked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var runs, effects atomic.Int32
	pays := agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		runs.Add(1)
		spec := agent.StepSpec{Key: "pay", Name: "pay", Permit: func(ctx context.Context) error {
			d, err := turn.Ask(ctx, agent.Question{Key: "pay", Name: "pay"})
			if err == nil && !d.Allowed() {
				err = errors.New("denied")
			}
			return err
		}}
		paid, err := agent.Step(ctx, turn, spec, func(context.Context, string) (int32, error) { return effects.Add(1), nil })
		return agent.Result{Text: fmt.Sprint("paid ", paid)}, err
	})
	r.worker(pays, parkAfter(time.Millisecond))
	r.say("m1", "hello")
	r.parked("m1")
	r.command("/approve 1", "Approved question 1: pay.")
	expect.Equal(t, "reply", r.ends("m1", session.StatusDone).Reply, "paid 1")
	expect.Equal(t, "runs", runs.Load(), 2)
}

// /new gives up a question for which the turn is parked, and ends that in the old conversation.
func TestNewWhileATurnWaits(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, parkAfter(time.Millisecond))
	r.say("m1", "hello")
	s.next(t, "m1").parks(t)
	r.parked("m1")
	r.command("/new", "The turn that waits ends in the old one.")
	r.ends("m1", session.StatusInterrupted)
	r.command("/approve 1", "There is no open question.")
	r.say("m2", "hello")
	s.next(t, "m2").reply("hi")
	r.ends("m2", session.StatusDone)
}
