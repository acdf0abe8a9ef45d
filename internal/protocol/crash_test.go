package protocol_test

import (
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
			expect.Equal(t, "turn", o.Turn, h.Turn().ID)
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
			died := time.Now()
			const limit = 1300 * time.Millisecond
			expect.Soon(t, "the recovery", func() bool {
				b.Reap()
				return b.IsIn(rediskey.Ready, actors.Key) || time.Since(died) > limit
			})
			if time.Since(died) > limit {
				t.Errorf("not recovered %s after its last renewal", limit)
			}
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
