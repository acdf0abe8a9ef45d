package worker_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func askTimeout(d time.Duration) change { return with(func(o *worker.Config) { o.AskTimeout = d }) }

// withdrawing matches the call that withdraws a question.
func withdrawing(cmd redis.Cmder) bool {
	args := cmd.Args()
	return script("ask")(cmd) && args[len(args)-2] == "" // question, before key
}

// notices returns the notices to the session's user.
func (r *rig) notices() (texts []string) {
	r.Helper()
	for _, e := range r.events(r.key) {
		if e.Type == session.EventNotice {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// A question without a decision is denied after a while, and the agent continues.
func TestUndecidedQuestionIsDenied(t *testing.T) {
	t.Parallel()
	r, s, a := inTurn(t, askTimeout(200*time.Millisecond), slots(1))
	other := r.key + "-other"
	r.send(other, turnstile.Message{ID: "m2", Text: "hello"})
	for _, number := range []string{"1", "2"} { // and so is the next one
		got := a.ask(a.ctx, r, "run make")
		expect.Equal(t, "timeout_ms", r.asked(number).Timeout, session.Millis(200*time.Millisecond))
		expect.Equal(t, "the decision", expect.Received(t, "the denial", got), decided{session.Deny, nil})
		expect.Equal(t, "decision", r.decided(number), session.Deny)
		const late = "No decision in 200ms, so it was denied: run make"
		expect.Equal(t, "the last notice", r.notices()[len(r.notices())-1], late)
		expect.Equal(t, "still asked", r.info().Question == nil, true)
		r.command("/approve", "There is no open question.")
	}
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	s.next(t, "m2").reply("ok")
	expect.Equal(t, "who waited for the slot", r.outcomeIn(other, "m2").Status, session.StatusDone)
}

// A decision in time counts, however long the turn continues.
func TestDecisionInTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ timeout, told time.Duration }{
		"timeout": {patience, patience}, "none": {-1, 0}, "default": {0, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _, a := inTurn(t, askTimeout(c.timeout))
			got := a.ask(a.ctx, r, "run make")
			expect.Equal(t, "timeout_ms", r.asked("1").Timeout, session.Millis(c.told))
			r.command("/approve", "Approved question 1: run make.")
			expect.Equal(t, "the decision", expect.Received(t, "the decision", got), decided{session.Allow, nil})
			expect.Equal(t, "decision", r.decided("1"), session.Allow)
			a.reply("ok")
			r.ends("m1", session.StatusDone)
			expect.List(t, "notices", r.notices())
		})
	}
}

// A decision at the end of the timeout counts, or its sender gets an error.
func TestDecisionAtTheLastMoment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gate     func(*redistest.Faults, redistest.Match) *redistest.Gate
		says     string
		decision session.Decision
		notices  int
	}{
		"just before": {(*redistest.Faults).Gate, "Approved question 1: run make.", session.Allow, 0},
		"just after":  {(*redistest.Faults).GateReply, "There is no open question.", session.Deny, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f redistest.Faults
			gate := c.gate(&f, withdrawing)
			r, _, a := inTurn(t, askTimeout(20*time.Millisecond), faulty(&f))
			got := a.ask(a.ctx, r, "run make")
			expect.Received(t, "the withdrawal", gate.Arrived())
			r.command("/approve", c.says)
			gate.Release()
			expect.Equal(t, "the decision", expect.Received(t, "the decision", got), decided{c.decision, nil})
			expect.Equal(t, "decision", r.decided("1"), c.decision)
			a.reply("ok")
			r.ends("m1", session.StatusDone)
			expect.Equal(t, "notices", len(r.notices()), c.notices)
		})
	}
}

// The same, with random times.
func TestDecisionsRaceTheTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Millisecond
	r, _, a := inTurn(t, askTimeout(timeout))
	ends := map[string]int{}
	for i := 1; i <= 100; i++ {
		got := a.ask(a.ctx, r, "run make")
		expect.Soon(t, "the question", func() bool { return r.info().Question != nil || len(got) > 0 })
		time.Sleep(rand.N(timeout)) // the race is the test
		_, err := r.client.Session(r.key).Decide(r.ctx, strconv.Itoa(i), session.Allow)
		end := expect.Received(t, "the decision", got)
		expect.OK(t, end.err)
		if end.Allowed() != (err == nil) {
			t.Fatalf("the user sees %v, and the agent %v", err, end.Decision)
		}
		ends[fmt.Sprint(end.Allowed())]++
	}
	t.Log("allowed:", ends)
	a.reply("ok")
	r.ends("m1", session.StatusDone)
}

// The log reports each time when all slots wait for decisions, and when that is over.
func TestEverySlotWaitsForADecision(t *testing.T) {
	t.Parallel()
	r, s, j := newRig(t), newStage(), newJournal("every slot")
	r.worker(s, slots(2), with(func(o *worker.Config) { o.Logger = slog.New(j) }))
	say := func(key, id string) *act {
		r.send(key, turnstile.Message{ID: id, Text: "hello"})
		return s.next(t, id)
	}
	full := func(level slog.Level) {
		t.Helper()
		line := expect.Received(t, "the log's line", j.lines)
		expect.Equal(t, "level", line.Level, level)
		line.Attrs(func(attr slog.Attr) bool { expect.Equal(t, attr.Key, attr.Value.String(), "2"); return true })
	}
	one, two := say(r.key, "m1"), say(r.key+"-two", "m2")
	first := one.ask(one.ctx, r, "run make")
	r.asked("1")
	expect.Equal(t, "lines while a slot is not asked for", len(j.lines), 0)
	two.ask(two.ctx, r, "run rm")
	full(slog.LevelWarn)
	r.command("/approve", "Approved question 1: run make.")
	expect.Received(t, "the decision", first)
	full(slog.LevelInfo)
	one.ask(one.ctx, r, "run again")
	full(slog.LevelWarn)
	two.reply("ok") // the turn's end ends its question
	full(slog.LevelInfo)
	one.reply("ok")
	r.ends("m1", session.StatusDone)
	expect.Equal(t, "further lines", len(j.lines), 0)
	expect.Equal(t, "the other one", r.outcomeIn(r.key+"-two", "m2").Status, session.StatusDone)
}
