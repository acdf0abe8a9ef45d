package sessionqueue_test

import (
	"errors"
	"testing"

	"turnstile/pkg/lockguard"
	"turnstile/pkg/session"
	sq "turnstile/pkg/sessionqueue"
)

// A question is answered once, by whoever is first, and only while it is asked.
func TestAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const usage = "Write it as /approve [NUMBER] [always]. Nothing was answered."
	equal(t, "before any turn", b.command("/approve "), "Nothing is asked.")
	b.say("now")
	h := b.start()
	reply := func() sq.Reply {
		t.Helper()
		r := b.c.Renew(b.ctx, []*sq.Hold{h})[0]
		must(t, r.Err)
		return r.Reply
	}
	equal(t, "before any question", b.command("/deny "), "Nothing is asked.")
	equal(t, "reply before any question", reply(), sq.Reply{})
	must(t, h.Ask(b.ctx, sq.Question{Number: 1, Name: "run make"}))
	equal(t, "question", *b.info().Question, sq.Question{Number: 1, Name: "run make"})
	for _, wrong := range []string{"x", "0", "1 2", "always 1"} {
		equal(t, wrong, b.receipt("/approve "+wrong, true).Reply, usage)
	}
	equal(t, "another", b.command("/deny 7"), "Question 7 is not asked any more; number 1 is: run make.")
	equal(t, "reply so far", reply(), sq.Reply{})
	equal(t, "answered", b.command("/approve 1 always"), "Approved: run make.")
	equal(t, "too late", b.command("/deny 1"), "That was answered already.")
	equal(t, "reply", reply(), sq.Reply{Question: 1, Decision: sq.Always})
	if q := b.info().Question; q != nil {
		t.Errorf("still asked: %+v", q)
	}
	must(t, h.Ask(b.ctx, sq.Question{Number: 2, Name: "rm"}))
	equal(t, "the second", b.command("/deny "), "Denied: rm.")
	equal(t, "reply to the second", reply(), sq.Reply{Question: 2, Decision: sq.Deny})
	must(t, h.Ask(b.ctx, sq.Question{Number: 3, Name: "mv"}))
	withdraw := func(number int) sq.Decision {
		t.Helper()
		d, err := h.Withdraw(b.ctx, number)
		must(t, err)
		return d
	}
	equal(t, "said before the withdrawal", withdraw(3), "")
	equal(t, "withdrawn", b.command("/approve 3"), "Nothing is asked.")
	must(t, h.Ask(b.ctx, sq.Question{Number: 4, Name: "mv"}))
	equal(t, "just in time", b.command("/approve always"), "Approved: mv.")
	for range 2 { // sent again, it answers the same
		equal(t, "said before the withdrawal", withdraw(4), sq.Always)
	}
	equal(t, "answered and withdrawn", b.command("/deny"), "Nothing is asked.")

	// The next turn's questions have the same numbers.
	must(t, h.Ask(b.ctx, sq.Question{Number: 5, Name: "cp"}))
	equal(t, "said to another question", withdraw(5), "")
	must(t, h.Ask(b.ctx, sq.Question{Number: 6, Name: "cp"}))
	b.say("next")
	equal(t, "next turn", b.finish(h), true)
	must(t, h.Promote(b.ctx))
	equal(t, "a question of the turn before", b.command("/approve "), "Nothing is asked.")
	equal(t, "reply to the turn before", reply(), sq.Reply{})
	must(t, h.Ask(b.ctx, sq.Question{Number: 4, Name: "again"}))
	equal(t, "said to the turn before", withdraw(4), "")
	must(t, h.Ask(b.ctx, sq.Question{Number: 5, Name: "again"}))
	b.die()
	equal(t, "a dead worker's", b.command("/approve "), "Nothing is asked.")
	b.start()
	if err := h.Ask(b.ctx, sq.Question{Number: 2}); !errors.Is(err, lockguard.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
}

// What is no decision answers nothing: an agent must not take it for a yes.
func TestAnswerIsADecision(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	h := b.start()
	must(t, h.Ask(b.ctx, sq.Question{Number: 1, Name: "run make"}))
	for _, d := range []sq.Decision{"", "yes", "allow ", `deny","x":"`} {
		if _, err := b.client.Answer(b.ctx, key, 1, d); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", d, err)
		}
	}
	if b.info().Question == nil {
		t.Error("it is not asked any more")
	}
}
