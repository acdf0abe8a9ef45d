package protocol_test

import (
	"errors"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A message that is to be steered in and came after /stop was not meant by it.
func TestSteerAfterStop(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(b *actors.Bench){
		"stop":      func(b *actors.Bench) { _, err := b.Client.Stop(b.Ctx, actors.Key); expect.OK(b, err) },
		"interrupt": func(b *actors.Bench) { b.Say("i", session.ModeInterrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			ask(b)
			b.Say("s", session.ModeSteer)
			steered, err := h.Steer(b.Ctx)
			expect.OK(t, err)
			expect.Equal(t, "steered into a turn that is to end", len(steered), 0)
			expect.Equal(t, "state", b.State("s"), "pending")
		})
	}
}

// A move that the owner counts its lease from has extended the sentinel, also
// when it is repeated or refuses.
func TestAnsweredMovesExtend(t *testing.T) {
	t.Parallel()
	const short = 10 * time.Second
	for name, move := range map[string]func(b *actors.Bench, h *protocol.Claim){
		"dismiss, sent twice": func(b *actors.Bench, h *protocol.Claim) {
			b.Redis.AddHook(actors.SendTwice(actors.Script("dismiss"), func() { b.Redis.PExpire(b.Ctx, b.Keys.Sentinel(), short) }))
			expect.OK(b, h.Dismiss(b.Ctx, h.Turn().Collected[0], session.StatusExpired, "too old"))
		},
		"promote, refused": func(b *actors.Bench, h *protocol.Claim) {
			_, err := b.Client.Stop(b.Ctx, actors.Key)
			expect.OK(b, err)
			b.Redis.PExpire(b.Ctx, b.Keys.Sentinel(), short)
			if err := h.Promote(b.Ctx); !errors.Is(err, protocol.ErrStopRequested) {
				b.Errorf("promote: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			b.SayCollected("b", "c")
			b.Finish(h)
			move(b, h)
			if left := b.Redis.PTTL(b.Ctx, b.Keys.Sentinel()).Val(); left < 2*short {
				t.Errorf("the sentinel ends in %s, and the owner trusts in a minute", left)
			}
		})
	}
}

// A retry begins anew: what the failed attempt had done is not the next one's.
func TestRetryForgetsTheFailedAttempt(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	expect.OK(t, h.Checkpoint(b.Ctx, []session.Entry{{Role: session.RoleAssistant, Text: "half"}}))
	expect.OK(t, h.Retry(b.Ctx, errors.New("flaky"), 0))
	past, err := b.Start().History(b.Ctx)
	expect.OK(t, err)
	if past.Partial != nil {
		t.Errorf("the second attempt goes on from %+v", past.Partial.Entries)
	}
}

// What an earlier run had done that was cut off stays, if the failed attempt had
// stored nothing of its own.
func TestRetryKeepsWhatWasInherited(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	expect.OK(t, h.Requeue(b.Ctx, "drain", session.Entry{Role: session.RoleAssistant, Text: "half"}))
	h = b.Start()
	expect.OK(t, h.Retry(b.Ctx, errors.New("flaky"), 0))
	past, err := b.Start().History(b.Ctx)
	expect.OK(t, err)
	if past.Partial == nil || past.Partial.Entries[0].Text != "half" {
		t.Errorf("inherited: %+v", past.Partial)
	}
}

// A turn that somebody has told to end is not cut off by a drain: the message that
// comes next is told of no interruption.
func TestMarkOfATurnThatIsToEnd(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(b *actors.Bench){
		"stop":      func(b *actors.Bench) { _, err := b.Client.Stop(b.Ctx, actors.Key); expect.OK(b, err) },
		"interrupt": func(b *actors.Bench) { b.Say("i", session.ModeInterrupt) },
		"rollback":  func(b *actors.Bench) { b.Say("i", session.ModeRollback) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			ask(b)
			mark(b, h, "shutdown_timeout")
			if err := h.Requeue(b.Ctx, "shutdown_timeout"); err == nil {
				t.Error("the turn was given back")
			}
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped, Release: true})
			expect.OK(t, err)
			b.Say("next")
			expect.Equal(t, "resume reason of the next turn", b.Claim().Turn().Resume, "")
		})
	}
}

// What Redis refuses for a while is tried again while the lease lasts.
func TestPassingRefusals(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"NOREPLICAS Not enough good replicas to write.",
		"ERR max number of clients reached",
	} {
		t.Run(text[:8], func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			faults := &redistest.Faults{}
			b.Redis.AddHook(faults)
			faults.FailBefore(actors.Script("finish"), 2, redistest.AnswerError(text))
			b.Finish(h)
			expect.Equal(t, "end", b.Outcome("a").Status, session.StatusDone)
		})
	}
}

// What is known of a turn that was cut off belongs to its conversation: a /new in
// mid-turn leaves it behind, however the turn ends.
func TestNewConversationHasNoOldMark(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *actors.Bench, h *protocol.Claim){
		"failed": func(b *actors.Bench, h *protocol.Claim) {
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no", Release: true})
			expect.OK(b, err)
		},
		"given back": func(b *actors.Bench, h *protocol.Claim) {
			b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, "drain")
			expect.OK(b, h.Requeue(b.Ctx, "drain", session.Entry{Role: session.RoleUser, Text: "a"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.SayAll("a", "b")
			b.Start()
			b.Die()
			h := b.Start() // marked by now
			expect.Equal(t, "mark", h.Turn().Resume, "crash")
			_, err := b.Client.Rotate(b.Ctx, actors.Key, "")
			expect.OK(t, err)
			end(b, h)
			next := b.Start()
			expect.Equal(t, "mark of the new conversation", next.Turn().Resume, "")
			past, err := next.History(b.Ctx)
			expect.OK(t, err)
			if past.Partial != nil || len(past.Entries) > 0 {
				t.Errorf("the new conversation has %+v", past)
			}
		})
	}
}

// A turn that was told of dropped messages and was not finished leaves them to the
// next one under the same sentinel.
func TestDroppedAreToldAfterAFailure(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Cap = 1; c.Line.Drop = "summarize" })
	b.Say("a")
	h := b.Start()
	b.Say("lost")
	b.Say("b")
	b.Finish(h)
	expect.Equal(t, "dropped, as b is told", len(h.Turn().Dropped), 1)
	b.Say("c")
	expect.OK(t, h.Promote(b.Ctx))
	b.Redis.Del(b.Ctx, b.Keys.Followups()) // nothing is special about the end of b's turn
	more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	expect.Equal(t, "goes on", more, true)
	expect.Equal(t, "dropped, as c is told", len(h.Turn().Dropped), 1)
}

// A dead owner's run record that has lost a field still lets the session go on:
// the claim must not fail behind its first write.
func TestClaimBehindARunRecordWithAHole(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"sid", "fence", "ids"} {
		for _, mode := range []session.Mode{session.ModeQueue, session.ModeInterrupt, session.ModeRollback} {
			t.Run(field+" "+string(mode), func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				b.Say("a")
				expect.OK(t, b.Start().Checkpoint(b.Ctx, []session.Entry{{Role: session.RoleUser, Text: "a"}}))
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
