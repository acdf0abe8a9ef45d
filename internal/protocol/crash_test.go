package protocol_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func resumeRecord(b *actors.Bench) resume.Record {
	b.Helper()
	r, err := resume.Read(b.Ctx, b.Redis, actors.Key)
	expect.OK(b, err)
	return r
}

func TestCrashWhileRunningIsMarked(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	b.Start()
	b.Die()
	h := b.Claim()
	turn := h.Turn()
	expect.Equal(t, "message", turn.Message.ID, "a")
	expect.Equal(t, "resume", turn.Resume, resume.ReasonCrash)
	expect.Equal(t, "redelivered", turn.Redelivered, 1)
	expect.Equal(t, "attempt", turn.Attempt, 1)
	r := resumeRecord(b)
	if !r.Pending || r.Reason != resume.ReasonCrash || r.Interruptions != 1 || time.Since(r.MarkedAt) > time.Minute || r.Suspended {
		t.Errorf("record: %+v", r)
	}
	// Only a finished turn clears it.
	expect.OK(t, h.Promote(b.Ctx))
	more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	expect.Equal(t, "has a next turn", more, true)
	expect.Equal(t, "interruptions after a failed turn", resumeRecord(b).Interruptions, 1)
	b.Finish(h)
	expect.Equal(t, "record after a finished turn", resumeRecord(b), resume.Record{})
}

func TestCrashWhileStartingIsNotMarked(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Claim()
	b.Die()
	turn := b.Claim().Turn()
	expect.Equal(t, "resume", turn.Resume, "")
	expect.Equal(t, "redelivered", turn.Redelivered, 1)
	expect.Equal(t, "record", resumeRecord(b), resume.Record{})
}

// With a worker without a starting phase, every death counts once a sign of life was seen.
func TestCrashOfAnImmediateTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Immediate = true })
	b.Say("a")
	h := b.Claim()
	expect.Equal(t, "phase", b.Info().Phase, "running")
	expect.OK(t, h.Promote(b.Ctx))
	b.Renew(h)
	b.Die()
	expect.Equal(t, "resume", b.Claim().Turn().Resume, resume.ReasonCrash)
}

func TestStopRequestedOfADeadTurn(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"stop, then death", "death, then stop"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.SayAll("a", "b")
			h := b.Start()
			if strings.HasPrefix(order, "death") {
				b.Die()
			}
			s, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(t, err)
			expect.Equal(t, "found", s.Phase, "running")
			expect.Equal(t, "of turn", s.Fence, h.Turn().Fence)
			expect.Equal(t, "dropped", s.Dropped, 1)
			b.Die()
			b.Say("c")
			expect.List(t, "runs", b.Drain(), "c")
			o := b.Outcome("a")
			expect.Equal(t, "status", o.Status, session.StatusStopped)
			expect.Equal(t, "error", o.Error, "stopped by user")
			expect.Equal(t, "b", b.Outcome("b").Status, session.StatusStopped)
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
		})
	}
}

// Nothing else waits: the claim cleans up and owns nothing.
func TestStopRequestedOfADeadTurnAlone(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Start()
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	b.Die()
	b.ClaimNothing("its only message was stopped")
	expect.Equal(t, "status", b.Outcome("a").Status, session.StatusStopped)
	expect.Equal(t, "sentinels", b.Redis.Exists(b.Ctx, b.Keys.Sentinel(), b.Keys.Active(), b.Keys.Lease()).Val(), 0)
	expect.Equal(t, "phase", b.Redis.HGet(b.Ctx, b.Keys.Run(), "phase").Val(), "idle")
	b.Say("b")
	expect.List(t, "runs", b.Drain(), "b")
}

func TestInterruptRequestedOfADeadTurn(t *testing.T) {
	t.Parallel()
	for _, retention := range []time.Duration{0, time.Hour} {
		t.Run(retention.String(), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.Retention = retention })
			b.SayAll("a", "b")
			h := b.Start()
			expect.OK(t, actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleUser, Text: "a"}}))
			b.Say("urgent", session.ModeInterrupt)
			b.Die()
			wait := make(chan session.Outcome, 1)
			go func() {
				o, _ := b.Client.Session(actors.Key).Wait(b.Ctx, "a")
				wait <- o
			}()
			expect.List(t, "runs", b.Drain(), "urgent", "b")
			o := <-wait
			expect.Equal(t, "status", o.Status, session.StatusInterrupted)
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
			if retention == 0 {
				expect.Equal(t, "kept", b.State("a"), "")
			} else {
				expect.Equal(t, "kept", b.State("a"), "completed")
			}
			expect.Equal(t, "the transcript begins with", b.Transcript(o.TranscriptID)[0], "a")
		})
	}
	t.Run("nothing of it was stored", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		b.Start()
		b.Say("urgent", session.ModeInterrupt)
		b.Die()
		expect.List(t, "runs", b.Drain(), "urgent")
		expect.Equal(t, "status", b.Outcome("a").Status, session.StatusInterrupted)
		expect.Equal(t, "it can be seen", b.State("a"), "completed")
		expect.Equal(t, "the transcript begins with", b.Transcript(b.Outcome("a").TranscriptID)[0], "a")
	})
}

// A message that replaces the running turn is accepted by a full queue.
func TestInterruptIntoAFullLine(t *testing.T) {
	t.Parallel()
	for _, mode := range []session.Mode{session.ModeInterrupt, session.ModeRollback} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Cap = 1 })
			b.Say("a")
			b.Start()
			b.Say("b")
			expect.Equal(t, "a further one", b.Say("c").Status, receipt.Refused)
			expect.Equal(t, "an urgent one", b.Say("d", mode).Position, 2)
			expect.List(t, "the line", b.Waiting(), "d", "b")
		})
	}
}

// A dead owner's session is recovered within SENTINEL_TTL and a second, however short that is.
func TestCrashIsNoticedInTime(t *testing.T) {
	t.Parallel()
	for _, turn := range []string{"first", "later"} {
		t.Run(turn, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.SentinelTTL = 300 * time.Millisecond })
			b.SayAll("a", "b")
			sessions, err := b.Worker.Pop(b.Ctx, 1)
			expect.OK(t, err)
			claims, err := b.Worker.Claim(b.Ctx, sessions)
			expect.OK(t, err)
			if turn == "later" {
				b.Finish(claims[0])
			}
			due := time.UnixMilli(int64(b.Redis.ZScore(b.Ctx, rediskey.Owned, actors.Key).Val()))
			if late := due.Sub(b.RedisTime()); late > 1300*time.Millisecond {
				t.Errorf("reap looks at it after %s", late)
			}
			expect.Soon(t, "the recovery", func() bool {
				b.Reap()
				return b.IsIn(rediskey.Ready, actors.Key)
			})
		})
	}
}

// An owner that renews stays in the index of owned sessions, whatever removed it.
func TestRenewalsKeepTheSessionOwned(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.Redis.Del(b.Ctx, rediskey.Owned)
	expect.OK(t, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err)
	if !b.IsIn(rediskey.Owned, actors.Key) {
		t.Error("an owned session is not in the owned index: when its worker dies only a sweep finds it")
	}
}

// The entries of a dead owner's turn become a transcript that expires like any other.
func TestTranscriptOfADeadTurnExpires(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	expect.OK(t, actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleUser, Message: "a", Text: "a"}}))
	b.Say("b", session.ModeInterrupt)
	b.Die()
	expect.Equal(t, "the next message", b.Claim().Turn().Message.ID, "b")
	transcript := b.Keys.Transcript(b.Info().TranscriptID)
	expect.Equal(t, "entries", b.Redis.LLen(b.Ctx, transcript).Val(), 1)
	if left := b.Redis.PTTL(b.Ctx, transcript).Val(); left < time.Hour {
		t.Errorf("the transcript expires in %s", left)
	}
}

// The next run of the message gets the last checkpoint, and no other message does.
func TestJournalOutlivesItsWorker(t *testing.T) {
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
		t.Errorf("earlier work: %+v", past.Earlier)
	}
	expect.Equal(t, "entries of the transcript", len(past.Entries), 0)
	b.Finish(h)
	past, err = h.History(b.Ctx)
	expect.OK(t, err)
	if past.Earlier != nil {
		t.Errorf("the next message has earlier work: %+v", past.Earlier)
	}
}

// A dead turn goes on with all of its messages, also the steered ones, before any other.
func TestDeadTurnStaysOne(t *testing.T) {
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
	expect.List(t, "messages of its next run", actors.MessageIDs(h), "c1", "c2", "s1", "s2")
	b.Finish(h)
	expect.Equal(t, "the next turn", h.Turn().Message.ID, "behind")
}

// A turn of several messages without a step that has killed its worker too often is taken apart: each of its messages
// may kill one more, so the poison ends alone and the others run.
func TestPoisonAmongOthers(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"starting", "running"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			collected(b)
			b.Say("behind")
			begin := func() *protocol.Claim {
				h := b.Claim()
				if phase == "running" {
					expect.OK(t, h.Promote(b.Ctx))
				}
				b.Renew(h)
				return h
			}
			for range 3 {
				expect.List(t, "the turn", actors.MessageIDs(begin()), "one", "two")
				b.Die()
			}
			b.Doubt()
			expect.List(t, "alone", actors.MessageIDs(begin()), "one") // the poison
			b.Die()
			b.Doubt()
			h := begin()
			expect.List(t, "the next one", actors.MessageIDs(h), "two")
			expect.Equal(t, "the poison", b.Outcome("one").Status, session.StatusFailed)
			b.Finish(h)
			expect.List(t, "then", actors.MessageIDs(h), "behind")
		})
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
