package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/chat/slash"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// reply returns the decision that h's next renewal brings.
func reply(b *actors.Bench, h *protocol.Claim) protocol.Decided {
	b.Helper()
	r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]
	expect.OK(b, r.Err)
	return r.Decided
}

// The first decision counts, and only while the question is open.
func TestQuestionIsDecidedOnce(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const usage = "Write it as /approve [NUMBER] [always]. Nothing was decided."
	expect.Equal(t, "before any turn", b.Command("/approve "), "There is no open question.")
	b.Say("now")
	h := b.Start()
	expect.Equal(t, "before any question", b.Command("/deny "), "There is no open question.")
	expect.Equal(t, "reply before any question", reply(b, h), protocol.Decided{})
	expect.Equal(t, "number", b.Asks(h, "run make"), 1)
	open := *b.Info().Question
	expect.Equal(t, "it has a time", open.AskedAt.IsZero(), false)
	open.AskedAt = time.Time{}
	expect.Equal(t, "question", fmt.Sprint(open), fmt.Sprint(session.Question{Turn: h.Turn().ID, Number: 1, Name: "run make"}))
	for _, wrong := range []string{"x", "0", "1 2", "always 1"} {
		expect.Equal(t, wrong, b.Receipt("/approve "+wrong, true).Reply, usage)
	}
	expect.Equal(t, "another", b.Command("/deny 7"), "Question 7 is no longer open; question 1 is: run make.")
	expect.Equal(t, "reply so far", reply(b, h), protocol.Decided{})
	expect.Equal(t, "decided", b.Command("/approve 1 always"), "Approved question 1: run make.")
	expect.Equal(t, "too late", b.Command("/deny 1"), "That question was already decided.")
	expect.Equal(t, "reply", reply(b, h), protocol.Decided{Question: 1, Decision: session.Always})
	if q := b.Info().Question; q != nil {
		t.Errorf("still open: %+v", q)
	}
	expect.Equal(t, "second number", b.Asks(h, "rm"), 2)
	expect.Equal(t, "the second", b.Command("/deny 2"), "Denied question 2: rm.")
	expect.Equal(t, "reply to the second", reply(b, h), protocol.Decided{Question: 2, Decision: session.Deny})
	withdraw := func() session.Decision {
		t.Helper()
		d, err := h.Withdraw(b.Ctx)
		expect.OK(t, err)
		return d.Decision
	}
	b.Asks(h, "mv")
	expect.Equal(t, "said before the withdrawal", withdraw(), "")
	expect.Equal(t, "withdrawn", b.Command("/approve 3"), "There is no open question.")
	b.Asks(h, "mv")
	expect.Equal(t, "just in time", b.Command("/approve 4 always"), "Approved question 4: mv.")
	for range 2 { // a repetition has the same result
		expect.Equal(t, "said before the withdrawal", withdraw(), session.Always)
	}
	expect.Equal(t, "decided and withdrawn", b.Command("/deny"), "There is no open question.")
}

// A number belongs to one question for as long as the session is known: a decision about a question
// of an earlier turn approves nothing.
func TestDecisionIsForOneQuestion(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	h := b.Start()
	expect.Equal(t, "number", b.Asks(h, "list the tables"), 1)
	b.Say("next")
	expect.Equal(t, "next turn", b.Finish(h), true)
	expect.OK(t, h.Promote(b.Ctx))
	expect.Equal(t, "a question of the turn before", b.Command("/approve 1"), "There is no open question.")
	expect.Equal(t, "number in the next turn", b.Asks(h, "drop the tables"), 2)
	expect.Equal(t, "late", b.Command("/approve 1"), "Question 1 is no longer open; question 2 is: drop the tables.")
	expect.Equal(t, "reply", reply(b, h), protocol.Decided{})
	b.Die()
	expect.Equal(t, "a dead worker's", b.Command("/approve 2"), "There is no open question.")
	again := b.Start()
	expect.Equal(t, "number on another worker", b.Asks(again, "drop the tables"), 3)
	expect.Equal(t, "too late", b.Command("/approve 2"), "Question 2 is no longer open; question 3 is: drop the tables.")
	if _, err := h.Ask(b.Ctx, session.Question{Name: "me too"}); !errors.Is(err, lease.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	b.Command("/new")
	b.Finish(again)
	b.Say("anew")
	h = b.Start()
	expect.Equal(t, "number in another conversation", b.Asks(h, "list"), 4)
}

// A decision without a number is for the question that the user sees. The user may not have seen a
// new one, unless no other question came before it.
func TestDecisionWithoutANumber(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	h := b.Start()
	b.Asks(h, "list")
	expect.Equal(t, "the first ever", b.Command("/approve"), "Approved question 1: list.")
	b.Asks(h, "delete_production")
	const refused = "Nothing was decided: question 2 is new, delete_production. Write /approve 2 or /deny 2"
	expect.Equal(t, "too soon", b.Command("/approve"), refused)
	expect.Equal(t, "too soon", b.Command("/deny"), refused)
	expect.Equal(t, "reply", reply(b, h), protocol.Decided{Question: 1, Decision: session.Allow})
	askedBefore(b, time.Minute)
	expect.Equal(t, "in time", b.Command("/approve"), "Approved question 2: delete_production.")
	b.Asks(h, "x")
	expect.Equal(t, "decided at once, by its number", b.Command("/deny 3"), "Denied question 3: x.")
	expect.Equal(t, "and again", b.Command("/deny"), "That question was already decided.")
}

// A question's ID is unique although numbers begin again: a late decision on question 1 never
// decides another question 1.
func TestDecisionByID(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	decide := func(id string) (string, session.Question) {
		t.Helper()
		q, err := b.Client.Session(actors.Key).Decide(b.Ctx, id, session.Allow)
		for _, known := range []error{session.ErrOtherQuestion, session.ErrNoQuestion, session.ErrDecided, session.ErrInvalid} {
			if errors.Is(err, known) {
				return known.Error(), q
			}
		}
		expect.OK(t, err)
		return "decided", q
	}
	wants := func(id, want string) session.Question {
		t.Helper()
		got, q := decide(id)
		expect.Equal(t, id, got, want)
		return q
	}
	b.Say("a")
	h := b.Start()
	expect.Equal(t, "number", b.Asks(h, "list the tables"), 1)
	first := *b.Info().Question
	expect.Equal(t, "id", first.ID(), h.Turn().ID+".1")
	b.Finish(h)
	wants(first.ID(), session.ErrNoQuestion.Error())
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	b.Pass(0)

	b.Say("a")
	h = b.Start()
	expect.Equal(t, "number after an erase", b.Asks(h, "drop the tables"), 1)
	second := *b.Info().Question
	for range 2 {
		expect.Equal(t, "open", wants(first.ID(), session.ErrOtherQuestion.Error()).ID(), second.ID())
	}
	expect.Equal(t, "reply", reply(b, h), protocol.Decided{})
	for _, wrong := range []string{".1", h.Turn().ID, h.Turn().ID + ".", h.Turn().ID + ".x", h.Turn().ID + ".0"} {
		wants(wrong, session.ErrInvalid.Error())
	}
	wants(strings.TrimPrefix(h.Turn().ID, rediskey.IDPrefix(actors.Key))+"0.1", session.ErrOtherQuestion.Error())
	wants(h.Turn().ID+".2", session.ErrOtherQuestion.Error())
	expect.Equal(t, "decided", wants(second.ID(), "decided").Name, second.Name)
	wants(second.ID(), session.ErrDecided.Error())
	expect.Equal(t, "reply", reply(b, h), protocol.Decided{Question: 1, Decision: session.Allow})
}

// askedBefore makes the session's last question as old as d.
func askedBefore(b *actors.Bench, d time.Duration) {
	b.Helper()
	run := rediskey.For(actors.Key).Run()
	words := strings.Fields(b.Redis.HGet(b.Ctx, run, "questions").Val())
	at, err := strconv.ParseInt(words[3], 10, 64)
	expect.OK(b, err)
	words[3] = strconv.FormatInt(at-d.Milliseconds(), 10)
	expect.OK(b, b.Redis.HSet(b.Ctx, run, "questions", strings.Join(words, " ")).Err())
}

// An unknown decision decides nothing: an agent must not take it for a yes.
func TestUnknownDecision(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	h := b.Start()
	b.Asks(h, "run make")
	for _, d := range []session.Decision{"", "yes", "allow ", `deny","x":"`} {
		if _, err := b.Client.Session(actors.Key).Decide(b.Ctx, "1", d); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", d, err)
		}
	}
	if b.Info().Question == nil {
		t.Error("it is no longer open")
	}
}

// A repeated decision reports that the first attempt has decided. It never decides a newer
// question, which the user has not seen.
func TestRepeatedDecisionIsOfItsOwnQuestion(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Load("decide")
	b.Say("now")
	h := b.Start()
	b.Asks(h, "read")
	b.Redis.AddHook(actors.SendTwice(actors.Script("decide"), func() { b.Asks(h, "delete everything") }))
	q, err := actors.NewClient(b.Redis).Session(actors.Key).Decide(b.Ctx, "", session.Allow)
	expect.OK(t, err)
	expect.Equal(t, "decided", q.Number, 1)
	if open := b.Info().Question; open == nil || open.Number != 2 {
		t.Errorf("the open question is %+v", open)
	}
}

// A decision and a value whose first attempt was carried out and whose reply was lost succeed, or it is unknown whether
// they did, whatever happened before the second attempt. No error says that nothing was changed.
func TestDecisionThatIsRepeated(t *testing.T) {
	t.Parallel()
	ask := func(b *actors.Bench, h *protocol.Claim) { b.Asks(h, "delete everything") }
	decided := func(b *actors.Bench, h *protocol.Claim) {
		ask(b, h)
		_, err := b.Chat().Decide(b.Ctx, strconv.Itoa(b.Info().Question.Number), session.Deny)
		expect.OK(b, err)
	}
	nextTurn := func(b *actors.Bench, h *protocol.Claim) {
		b.Say("next")
		b.Finish(h)
	}
	between := map[string][]func(b *actors.Bench, h *protocol.Claim){
		"nothing": nil, "the next question": {ask}, "the next question's decision": {decided}, "two questions": {decided, ask},
		"withdrawn":        {func(b *actors.Bench, h *protocol.Claim) { _, err := h.Withdraw(b.Ctx); expect.OK(b, err) }},
		"the turn's end":   {func(b *actors.Bench, h *protocol.Claim) { b.Finish(h) }},
		"a dead worker":    {func(b *actors.Bench, _ *protocol.Claim) { b.Die() }},
		"the next turn":    {nextTurn},
		"its question":     {nextTurn, ask},
		"its decision":     {nextTurn, decided},
		"a stop":           {func(b *actors.Bench, _ *protocol.Claim) { _, err := b.Chat().Stop(b.Ctx); expect.OK(b, err) }},
		"another decision": {func(b *actors.Bench, _ *protocol.Claim) { _, _ = b.Chat().Decide(b.Ctx, "1", session.Deny) }},
		"another value": {func(b *actors.Bench, _ *protocol.Claim) {
			_ = b.Chat().Give(b.Ctx, turnstile.Value{Key: "payment", JSON: []byte("2")})
		}},
	}
	decide := func(question string) func(context.Context, *turnstile.Session, *protocol.Claim) error {
		return func(ctx context.Context, chat *turnstile.Session, h *protocol.Claim) error {
			_, err := chat.Decide(ctx, strings.ReplaceAll(question, "TURN", h.Turn().ID), session.Allow)
			return err
		}
	}
	moves := map[string]func(context.Context, *turnstile.Session, *protocol.Claim) error{
		"1": decide("1"), "TURN.1": decide("TURN.1"), "the open one": decide(""),
		"a value": func(ctx context.Context, chat *turnstile.Session, _ *protocol.Claim) error {
			return chat.Give(ctx, turnstile.Value{Key: "payment", Secret: "secret", JSON: []byte("1")})
		},
	}
	for name, move := range moves {
		for what, happens := range between {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				b, wire := actors.NewBench(t), &redistest.Wire{}
				b.Load("decide")
				b.Say("now")
				h := b.Start()
				if name == "a value" {
					_, err := h.Journal(b.Ctx, protocol.JournalWrite{HasSteps: true, Steps: map[string]string{"a": "{}"}})
					expect.OK(t, err)
					_, err = h.WaitFor(b.Ctx, "payment", "secret", false, 0)
					expect.OK(t, err)
				} else {
					b.Asks(h, "read")
				}
				wire.LoseReply(actors.Script("decide"), redistest.CarriedOut)
				rdb, attempts := wire.Client(t, b.Redis), 0
				rdb.AddHook(actors.Before(actors.Script("decide"), func() {
					if attempts++; attempts == 2 {
						for _, f := range happens {
							f(b, h)
						}
					}
				}))
				err := move(b.Ctx, actors.NewClient(rdb).Session(actors.Key), h)
				expect.Equal(t, "attempts", attempts, 2)
				if err != nil && !errors.Is(err, redisconn.ErrUnsure) || len(happens) == 0 && err != nil {
					t.Errorf("after a first attempt that was carried out: %v", err)
				}
				for _, unchanged := range []error{session.ErrNoQuestion, session.ErrOtherQuestion, session.ErrDecided, session.ErrJustAsked, session.ErrNoWait, session.ErrGiven, session.ErrUnchanged} {
					if errors.Is(err, unchanged) {
						t.Errorf("%v says that nothing was changed", err)
					}
				}
			})
		}
	}
}

func TestDecisionOfALongName(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("m")
	b.Asks(b.Start(), "rm")
	for n, refused := range map[int]bool{513: true, 512: false} {
		_, err := b.Chat().As(strings.Repeat("a", n)).Decide(b.Ctx, "1", session.Allow)
		expect.Equal(t, fmt.Sprintf("a name of %d bytes is refused", n), errors.Is(err, session.ErrInvalid), refused)
	}
}

// A check that allowed a decision of one turn does not allow one of a later turn.
func TestDecisionOfTheCheckedTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("alices")
	first := b.Start()
	b.Asks(first, "look")
	checked := slash.WithCheck(b.Ctx, func(context.Context, int) (session.Question, error) {
		b.Finish(first) // alice's turn ends here, and bob's asks
		b.Say("bobs")
		b.Asks(b.Start(), "rm")
		return session.Question{Turn: first.Turn().ID}, nil
	})
	q, err := b.Client.Session(actors.Key).Decide(checked, "", session.Allow)
	expect.Equal(t, "decided", errors.Is(err, session.ErrJustAsked), true)
	expect.Equal(t, "the open question", q.Name, "rm")
	if b.Info().Question == nil {
		t.Error("bob's question was decided")
	}
}

// A check that allowed a decision about one question allows none about the turn's next one, which may have
// other approvers, however long the decision takes.
func TestDecisionOfTheCheckedQuestion(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.Asks(h, "look")
	checked := slash.WithCheck(b.Ctx, func(context.Context, int) (session.Question, error) {
		q := *b.Info().Question
		b.Asks(h, "rm")
		b.Pass(time.Minute)
		return q, nil
	})
	q, err := b.Client.Session(actors.Key).Decide(checked, "", session.Allow)
	expect.Equal(t, "refused", errors.Is(err, session.ErrJustAsked), true)
	expect.Equal(t, "the open question", q.Name, "rm")
	if b.Info().Question == nil {
		t.Error("the second question was decided")
	}
}
