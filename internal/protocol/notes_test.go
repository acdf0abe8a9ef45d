package protocol_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// summarizing is a queue of one message. The next turn gets a note of dropped messages.
func summarizing(t *testing.T, changes ...actors.Setup) *actors.Bench {
	t.Helper()
	return actors.NewBench(t, append([]actors.Setup{actors.Line(session.QueueSettings{Cap: 1, Drop: session.DropSummarize})}, changes...)...)
}

// drops sends messages until all but one are dropped.
func drops(b *actors.Bench, name string, n int) {
	b.Helper()
	for i := range n {
		b.Say(fmt.Sprint(name, i))
	}
	b.Say(name + "-last")
}

// noteOf returns a turn's note of dropped messages: the first, the last, how many, and how many
// more.
func noteOf(b *actors.Bench, h *protocol.Claim) string {
	b.Helper()
	past, err := h.History(b.Ctx)
	expect.OK(b, err)
	turn := h.Turn()
	if len(turn.Dropped) != len(past.Dropped) || turn.Omitted != past.Omitted {
		b.Errorf("of %d and %d more the texts are %d and %d more", len(turn.Dropped), turn.Omitted, len(past.Dropped), past.Omitted)
	}
	if len(past.Dropped) == 0 {
		return fmt.Sprint("nothing and ", past.Omitted)
	}
	return fmt.Sprintf("%s to %s, %d and %d", past.Dropped[0], past.Dropped[len(past.Dropped)-1], len(past.Dropped), past.Omitted)
}

// The next turn's note has the newest dropped messages and the number of older ones.
func TestSummariesAreBounded(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Say("now")
		h := b.Start()
		drops(b, "a", 120)
		expect.Equal(t, "all of them", b.Info().Dropped, 120)
		if n := len(b.Redis.HGet(b.Ctx, b.Keys.Record(), "dropped").Val()); n > 1000 {
			t.Errorf("the record has %d bytes of them", n)
		}
		b.Finish(h)
		expect.Equal(t, "note", noteOf(b, h), "a70 to a119, 50 and 70")

		expect.OK(t, h.Promote(b.Ctx))
		drops(b, "b", 20)
		expect.Equal(t, "with the new ones", b.Info().Dropped, 140)
		b.Finish(h)
		expect.Equal(t, "note meanwhile", noteOf(b, h), "b0 to b19, 20 and 0")
		expect.OK(t, h.Promote(b.Ctx))
		drops(b, "c", 120)
		expect.Equal(t, "has a next turn", b.Finish(h), true)
		expect.Equal(t, "many meanwhile", noteOf(b, h), "c70 to c119, 50 and 70")
		b.Finish(h)
		expect.Equal(t, "left", b.Info().Dropped, 0)
		b.Say("later")
		expect.Equal(t, "later", noteOf(b, b.Start()), "nothing and 0")
	}, actors.Line(session.QueueSettings{Cap: 1, Drop: session.DropSummarize}))
}

// An agent that fails gets the note again, with the same bound.
func TestSummariesOfFailedTurns(t *testing.T) {
	t.Parallel()
	b := summarizing(t)
	b.Say("now")
	h := b.Start()
	drops(b, "a", 60)
	b.Finish(h)
	for _, name := range []string{"b", "c"} {
		expect.OK(t, h.Promote(b.Ctx))
		drops(b, name, 30)
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
		expect.OK(t, err)
	}
	expect.Equal(t, "note", noteOf(b, h), "b10 to c29, 50 and 70")
}

// A turn that did not pass the note on leaves it to the next turn.
func TestSummariesThatWereNotGiven(t *testing.T) {
	t.Parallel()
	for _, status := range []session.Status{session.StatusDone, session.StatusFailed} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			b := summarizing(t)
			b.Say("now")
			h := b.Start()
			drops(b, "a", 2)
			b.Finish(h)
			expect.Equal(t, "note", noteOf(b, h), "a0 to a1, 2 and 0")
			b.Enqueue("plain") // by a sender that did not notify: there is no follow-up
			_, err := h.Finish(b.Ctx, protocol.End{Status: status})
			expect.OK(t, err)
			expect.Equal(t, "the next note", noteOf(b, h), "a0 to a1, 2 and 0")
			b.Finish(h)
			b.Say("later")
			expect.Equal(t, "a later note", noteOf(b, b.Start()), "nothing and 0")
		})
	}
}

// A note stays with its transcript, and ends with a stop. Messages that are dropped later are in
// the next note.
func TestSummariesStayInTheirConversation(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(b *actors.Bench){
		"/new": func(b *actors.Bench) { b.Replies("/new", "") },
		"/stop": func(b *actors.Bench) {
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
		},
		"a suspension": func(b *actors.Bench) {
			_, err := resume.Suspend(b.Ctx, b.Redis, actors.Key)
			expect.OK(b, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := summarizing(t)
			b.Say("now")
			h := b.Start()
			drops(b, "a", 60)
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
			expect.OK(t, err)
			leave(b)
			b.Say("next")
			h = b.Start()
			expect.Equal(t, "note", noteOf(b, h), "nothing and 0")
			expect.Equal(t, "kept", b.Info().Dropped, 0)
			drops(b, "b", 52)
			b.Finish(h)
			if b.Finish(h); h.Turn().Omitted == 0 {
				t.Errorf("%+v", h.Turn())
			}
		})
	}
}

// The transcript is replaced during a turn that has a note: the turn's end keeps the messages that
// were dropped since.
func TestSummariesAfterANewInMidTurn(t *testing.T) {
	t.Parallel()
	b := summarizing(t)
	b.Say("now")
	h := b.Start()
	drops(b, "a", 5)
	b.Finish(h)
	expect.Equal(t, "note", noteOf(b, h), "a0 to a4, 5 and 0")
	b.Replies("/new", "")
	drops(b, "b", 3)
	b.Finish(h)
	expect.Equal(t, "note in the new one", noteOf(b, h), "b0 to b2, 3 and 0")
	b.Finish(h)
	expect.Equal(t, "left", b.Info().Dropped, 0)
}

// A record that others have written may have more notes than the scripts store, or none where they
// count some.
func TestSummariesOfOthers(t *testing.T) {
	t.Parallel()
	b := summarizing(t)
	b.Say("now")
	h := b.Start()
	drops(b, "a", 60)
	appends := func(n int) {
		var ids []string
		expect.OK(t, json.Unmarshal([]byte(b.Redis.HGet(b.Ctx, b.Keys.Record(), "dropped").Val()), &ids))
		for i := range n {
			ids = append(ids, b.Task(fmt.Sprint("a", i)))
		}
		text, err := json.Marshal(ids)
		expect.OK(t, err)
		expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Record(), "dropped", text).Err())
	}
	appends(20)
	b.Finish(h)
	expect.Equal(t, "note", noteOf(b, h), "a30 to a19, 50 and 30")
	expect.OK(t, h.Promote(b.Ctx))
	appends(3)
	b.Finish(h)
	expect.Equal(t, "left", b.Info().Dropped, 3)

	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Record(), "dropped", "").Err())
	expect.Equal(t, "left of it", b.Info().Dropped, 0)
	b.Say("later")
	expect.Equal(t, "a later note", noteOf(b, b.Start()), "nothing and 0")
}

// Of the dropped messages' texts, the newest are read, up to a limit in bytes.
func TestSummariesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	b := summarizing(t)
	b.Say("now")
	h := b.Start()
	for i := range 8 {
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: fmt.Sprint("m", i), Text: fmt.Sprint(i) + strings.Repeat("x", 1<<20-1)})
		expect.OK(t, err)
	}
	b.Finish(h)
	past, err := h.History(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "texts", len(past.Dropped), 4)
	expect.Equal(t, "more", past.Omitted, 3)
	expect.Equal(t, "the first of them", past.Dropped[0][:1], "3")
	b.Finish(h)
	expect.Equal(t, "left", b.Info().Dropped, 0)
}

// A turn that got a note and did not finish leaves it to the next turn under the same sentinel.
func TestDroppedAreReportedAfterAFailure(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Cap = 1; c.Line.Drop = "summarize" })
	b.Say("a")
	h := b.Start()
	b.Say("lost")
	b.Say("b")
	b.Finish(h)
	expect.Equal(t, "dropped, in b's note", len(h.Turn().Dropped), 1)
	b.Say("c")
	expect.OK(t, h.Promote(b.Ctx))
	b.Redis.Del(b.Ctx, b.Keys.Followups()) // the end of b's turn can take the fast path
	more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	expect.Equal(t, "has a next turn", more, true)
	expect.Equal(t, "dropped, in c's note", len(h.Turn().Dropped), 1)
}
