package protocol_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile/internal/lease"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// asks has h's turn ask a question, and returns its number.
func (b *bench) asks(h *sq.Claim, name string) int {
	b.Helper()
	number, err := h.Ask(b.ctx, session.Question{Name: name})
	expect.OK(b, err)
	return number
}

// reply is what h's next renewal hears of an answer.
func (b *bench) reply(h *sq.Claim) sq.Decided {
	b.Helper()
	r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]
	expect.OK(b, r.Err)
	return r.Decided
}

// A question is answered once, by whoever is first, and only while it is asked.
func TestQuestionIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const usage = "Write it as /approve [NUMBER] [always]. Nothing was answered."
	expect.Equal(t, "before any turn", b.command("/approve "), "There is no open question.")
	b.say("now")
	h := b.start()
	expect.Equal(t, "before any question", b.command("/deny "), "There is no open question.")
	expect.Equal(t, "reply before any question", b.reply(h), sq.Decided{})
	expect.Equal(t, "number", b.asks(h, "run make"), 1)
	expect.Equal(t, "question", *b.info().Question, session.Question{Number: 1, Name: "run make"})
	for _, wrong := range []string{"x", "0", "1 2", "always 1"} {
		expect.Equal(t, wrong, b.receipt("/approve "+wrong, true).Reply, usage)
	}
	expect.Equal(t, "another", b.command("/deny 7"), "Question 7 is no longer open; question 1 is: run make.")
	expect.Equal(t, "reply so far", b.reply(h), sq.Decided{})
	expect.Equal(t, "answered", b.command("/approve 1 always"), "Approved question 1: run make.")
	expect.Equal(t, "too late", b.command("/deny 1"), "That question was already answered.")
	expect.Equal(t, "reply", b.reply(h), sq.Decided{Question: 1, Decision: session.Always})
	if q := b.info().Question; q != nil {
		t.Errorf("still asked: %+v", q)
	}
	expect.Equal(t, "second number", b.asks(h, "rm"), 2)
	expect.Equal(t, "the second", b.command("/deny 2"), "Denied question 2: rm.")
	expect.Equal(t, "reply to the second", b.reply(h), sq.Decided{Question: 2, Decision: session.Deny})
	withdraw := func() session.Decision {
		t.Helper()
		d, err := h.Withdraw(b.ctx)
		expect.OK(t, err)
		return d
	}
	b.asks(h, "mv")
	expect.Equal(t, "said before the withdrawal", withdraw(), "")
	expect.Equal(t, "withdrawn", b.command("/approve 3"), "There is no open question.")
	b.asks(h, "mv")
	expect.Equal(t, "just in time", b.command("/approve 4 always"), "Approved question 4: mv.")
	for range 2 { // sent again, it answers the same
		expect.Equal(t, "said before the withdrawal", withdraw(), session.Always)
	}
	expect.Equal(t, "answered and withdrawn", b.command("/deny"), "There is no open question.")
}

// A number is one question's for as long as the session is known: what was said to an
// earlier one, in another turn, approves nothing.
func TestAnAnswerIsForOneQuestion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	h := b.start()
	expect.Equal(t, "number", b.asks(h, "list the tables"), 1)
	b.say("next")
	expect.Equal(t, "next turn", b.finish(h), true)
	expect.OK(t, h.Promote(b.ctx))
	expect.Equal(t, "a question of the turn before", b.command("/approve 1"), "There is no open question.")
	expect.Equal(t, "number in the next turn", b.asks(h, "drop the tables"), 2)
	expect.Equal(t, "late", b.command("/approve 1"), "Question 1 is no longer open; question 2 is: drop the tables.")
	expect.Equal(t, "reply", b.reply(h), sq.Decided{})
	b.die()
	expect.Equal(t, "a dead worker's", b.command("/approve 2"), "There is no open question.")
	again := b.start()
	expect.Equal(t, "number on another worker", b.asks(again, "drop the tables"), 3)
	expect.Equal(t, "too late", b.command("/approve 2"), "Question 2 is no longer open; question 3 is: drop the tables.")
	if _, err := h.Ask(b.ctx, session.Question{Name: "me too"}); !errors.Is(err, lease.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	b.command("/new")
	b.finish(again)
	b.say("anew")
	h = b.start()
	expect.Equal(t, "number in another conversation", b.asks(h, "list"), 4)
}

// A bare answer is for the question that the user sees. One that is new the user
// may not have seen, unless there was none before it.
func TestBareAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	h := b.start()
	b.asks(h, "list")
	expect.Equal(t, "the first ever", b.command("/approve"), "Approved question 1: list.")
	b.asks(h, "delete_production")
	const refused = "Nothing was answered: question 2 is new, delete_production. Write /approve 2 or /deny 2"
	expect.Equal(t, "too soon", b.command("/approve"), refused)
	expect.Equal(t, "too soon", b.command("/deny"), refused)
	expect.Equal(t, "reply", b.reply(h), sq.Decided{Question: 1, Decision: session.Allow})
	b.askedBefore(time.Minute)
	expect.Equal(t, "in time", b.command("/approve"), "Approved question 2: delete_production.")
	b.asks(h, "x")
	expect.Equal(t, "answered at once, by its number", b.command("/deny 3"), "Denied question 3: x.")
	expect.Equal(t, "and again", b.command("/deny"), "That question was already answered.")
}

// askedBefore makes the session's last question as old as d.
func (b *bench) askedBefore(d time.Duration) {
	b.Helper()
	run := rediskey.For(key).Run()
	words := strings.Fields(b.rdb.HGet(b.ctx, run, "questions").Val())
	at, err := strconv.ParseInt(words[3], 10, 64)
	expect.OK(b, err)
	words[3] = strconv.FormatInt(at-d.Milliseconds(), 10)
	expect.OK(b, b.rdb.HSet(b.ctx, run, "questions", strings.Join(words, " ")).Err())
}

// Beside a worker of the version before, which counts from 1 in each turn and keeps no
// last number, numbers go on behind its last.
func TestQuestionsBesideAnOlderWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	h := b.start()
	b.asks(h, "a")
	run := rediskey.For(key).Run()
	expect.OK(t, b.rdb.HSet(b.ctx, run, "question", fmt.Sprintf(`%d 7 {"name":"old"}`, h.Turn().Fence)).Err())
	expect.Equal(t, "bare, of a question whose age is unknown", b.command("/approve"), "Approved question 7: old.")
	expect.Equal(t, "number", b.asks(h, "b"), 8)
}

// What is no decision answers nothing: an agent must not take it for a yes.
func TestAnswerIsADecision(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	h := b.start()
	b.asks(h, "run make")
	for _, d := range []session.Decision{"", "yes", "allow ", `deny","x":"`} {
		if _, err := b.client.Decide(b.ctx, key, 1, d); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", d, err)
		}
	}
	if b.info().Question == nil {
		t.Error("it is not asked any more")
	}
}
