package protocol_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// The next run of the message gets the last checkpoint, and no other message does.
func TestPartialOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	h := b.Start()
	first := h.Turn()
	expect.OK(t, actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleAssistant, Text: "half", Turn: first.ID}}))
	b.Die()
	h = b.Start()
	past, err := h.History(b.Ctx)
	expect.OK(t, err)
	if past.Earlier == nil || len(past.Earlier.Entries) != 1 || past.Earlier.Entries[0].Text != "half" || past.Earlier.Fence != first.Fence {
		t.Errorf("partial: %+v", past.Earlier)
	}
	expect.Equal(t, "entries of the transcript", len(past.Entries), 0)
	b.Finish(h)
	past, err = h.History(b.Ctx)
	expect.OK(t, err)
	if past.Earlier != nil {
		t.Errorf("the next message has a partial: %+v", past.Earlier)
	}
}

// The messages of a dead turn, also the steered ones, return to the head in their order, one
// message a turn.
func TestMessagesOfADeadTurnComeBack(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.SayCollected("c1", "c2")
	b.Finish(h)
	expect.OK(t, h.Promote(b.Ctx))
	b.Say("behind")
	b.Say("s1", session.ModeSteer)
	b.Say("s2", session.ModeSteer)
	steered, err := h.Steer(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "steered", len(steered), 2)
	b.Die()
	h = b.Start()
	expect.Equal(t, "messages of the next turn", len(h.Turn().Messages()), 1)
	expect.Equal(t, "message", h.Turn().Message.ID, "c1")
	b.Finish(h)
	for _, id := range []string{"c2", "s1", "s2", "behind"} {
		expect.Equal(t, "message", h.Turn().Message.ID, id)
		expect.Equal(t, "messages of its turn", len(h.Turn().Messages()), 1)
		b.Finish(h)
	}
}

// Sixth invariant: a message that keeps killing its worker is archived, and the session begins a
// new transcript.
func TestStuckSession(t *testing.T) {
	t.Parallel()
	for _, waiting := range []bool{true, false} {
		t.Run(fmt.Sprintf("others wait %v", waiting), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("poison")
			if waiting {
				b.Say("b")
			}
			var old string
			for n := range 3 {
				h := b.Start()
				expect.Equal(t, "message", h.Turn().Message.ID, "poison")
				expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, n)
				old = h.Turn().TranscriptID
				b.Die()
			}
			b.Doubt()
			if !waiting {
				b.ClaimNothing("its only message was archived")
				expect.Equal(t, "suspended", resumeRecord(b).Suspended, true)
				b.Say("b")
			}
			h := b.Claim()
			turn := h.Turn()
			expect.Equal(t, "next message", turn.Message.ID, "b")
			expect.Equal(t, "reset", turn.Reset, "suspended")
			expect.Equal(t, "resume", turn.Resume, "")
			expect.Equal(t, "entries", turn.Entries, 0)
			if turn.TranscriptID == old {
				t.Error("the session id is the old one")
			}
			o := b.Outcome("poison")
			expect.Equal(t, "status", o.Status, session.StatusFailed)
			if !strings.Contains(o.Error, "3 turns in a row") {
				t.Errorf("error: %q", o.Error)
			}
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
			expect.OK(t, h.Promote(b.Ctx))
			b.Finish(h)
			b.Say("c")
			h = b.Claim()
			expect.Equal(t, "reset of the turn after", h.Turn().Reset, "")
			expect.Equal(t, "session id", h.Turn().TranscriptID, turn.TranscriptID)
			expect.Equal(t, "entries", h.Turn().Entries, 2)
		})
	}
}

func TestFinishedTurnResetsTheCounter(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for _, id := range []string{"a", "b"} {
		b.Say(id)
		for range 2 {
			b.Start()
			b.Die()
		}
		h := b.Start()
		expect.Equal(t, "message", h.Turn().Message.ID, id)
		b.Finish(h)
		expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 0)
	}
}

// The interruptions that CRASH_POLICY=suspend has counted outlive a claim that has to wait, and one
// with a lost reply: the message may be the one that kills workers.
func TestCrashesAreCountedThroughASuspension(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(b *actors.Bench){
		"at once": func(*actors.Bench) {},
		"after a wait": func(b *actors.Bench) {
			expect.OK(b, b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("a")), b.Keys.Lease()).Err())
			b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("b")), "quiet", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), " 100"))
			b.ClaimNothing("b waits for more")
			windowsEnd(b, "b")
		},
		"after a lost reply": func(b *actors.Bench) {
			loseClaim(b, "claim")
			expect.OK(b, b.Worker.Unclaim(b.Ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, crashSuspends)
			b.Say("a")
			h := b.Start()
			b.Say("b")
			b.Renew(h)
			b.Die()
			b.Doubt()
			between(b)
			turn := b.Claim().Turn()
			expect.Equal(t, "reset", turn.Reset, "suspended")
			expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 1)
			expect.Equal(t, "carried", b.Redis.HExists(b.Ctx, b.Keys.Resume(), "carried").Val(), false)
		})
	}
}

// A dead owner's run record has lost a field: the claim must not fail after its first write, and
// the session continues.
func TestClaimBehindARunRecordWithAHole(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"sid", "fence", "ids"} {
		for _, mode := range []session.Mode{session.ModeQueue, session.ModeInterrupt, session.ModeRollback} {
			t.Run(field+" "+string(mode), func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				b.Say("a")
				expect.OK(t, actors.Checkpoint(b.Ctx, b.Start(), []session.Entry{{Role: session.RoleUser, Text: "a"}}))
				b.Say("b", mode)
				expect.OK(t, b.Redis.HDel(b.Ctx, b.Keys.Run(), field).Err())
				b.Die()
				b.Drain()
				for _, id := range []string{"a", "b"} {
					b.Outcome(id)
				}
			})
		}
	}
}
