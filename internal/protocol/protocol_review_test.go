package protocol_test

import (
	"context"
	"errors"
	"testing"
	"time"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Statistics of earlier days are keys too, which the day of the erasure does not
// name.
func TestEraseAfterMoreThanOneDay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.drain()
	expect.OK(t, b.rdb.Set(b.ctx, b.k.Processed()+":2001-02-03", 7, 0).Err())
	expect.OK(t, b.rdb.Set(b.ctx, b.k.Failed()+":2001-02-03", 7, 0).Err())
	ctx, cancel := context.WithTimeout(b.ctx, 3*time.Second)
	defer cancel()
	expect.OK(t, b.client.Erase(ctx, key))
	expect.List(t, "keys that are left", b.rdb.Keys(b.ctx, b.k.Any()).Val())
}

// Somebody goes on with a session that is being erased: it stays known to those
// who look for lost sessions.
func TestEraseFindsATurnThatBeganMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.drain()
	other := actors.NewClient(b.rdb)
	done := false
	b.rdb.AddHook(behind(called("erase"), func() {
		if done {
			return
		}
		done = true
		_, err := other.Submit(b.ctx, key, session.Message{ID: "late", Text: "late"})
		expect.OK(t, err)
		b.claim()
	}))
	if err := b.client.Erase(b.ctx, key); err != nil && !errors.Is(err, session.ErrBusy) {
		t.Fatalf("erased: %v", err)
	}
	b.die() // before its first renewal
	b.sweep()
	b.reap()
	expect.List(t, "what is run", b.drain(), "late")
	if !b.isIn("turnstile:sessions", key) {
		t.Error("no sweep will find the session")
	}
}

// A message that is to be steered in and came after /stop was not meant by it.
func TestSteerAfterStop(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(b *bench){
		"stop":      func(b *bench) { _, err := b.client.Stop(b.ctx, key); expect.OK(b, err) },
		"interrupt": func(b *bench) { b.say("i", session.ModeInterrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			h := b.start()
			ask(b)
			b.say("s", session.ModeSteer)
			steered, err := h.Steer(b.ctx)
			expect.OK(t, err)
			expect.Equal(t, "steered into a turn that is to end", len(steered), 0)
			expect.Equal(t, "state", b.state("s"), "pending")
		})
	}
}

// A move that the owner counts its lease from has extended the sentinel, also
// when it is repeated or refuses.
func TestAnsweredMovesExtend(t *testing.T) {
	t.Parallel()
	const short = 10 * time.Second
	for name, move := range map[string]func(b *bench, h *sq.Claim){
		"dismiss, sent twice": func(b *bench, h *sq.Claim) {
			b.rdb.AddHook(between(called("dismiss"), func() { b.rdb.PExpire(b.ctx, b.k.Sentinel(), short) }))
			expect.OK(b, h.Dismiss(b.ctx, h.Turn().Collected[0], session.StatusExpired, "too old"))
		},
		"promote, refused": func(b *bench, h *sq.Claim) {
			_, err := b.client.Stop(b.ctx, key)
			expect.OK(b, err)
			b.rdb.PExpire(b.ctx, b.k.Sentinel(), short)
			if err := h.Promote(b.ctx); !errors.Is(err, sq.ErrStopRequested) {
				b.Errorf("promote: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			h := b.start()
			b.collected("b", "c")
			b.finish(h)
			move(b, h)
			if left := b.rdb.PTTL(b.ctx, b.k.Sentinel()).Val(); left < 2*short {
				t.Errorf("the sentinel ends in %s, and the owner trusts in a minute", left)
			}
		})
	}
}

// The answer to /stop whose reply was lost tells the same as the lost one did.
func TestStopSentTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	b.sayAll("b", "c")
	fence := h.Turn().Fence
	b.rdb.AddHook(between(called("stop"), func() {
		_, err := h.Finish(b.ctx, sq.End{Status: session.StatusStopped})
		expect.OK(t, err)
	}))
	s, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "stopped", s, session.Stopped{Phase: "running", Fence: fence, Dropped: 2})
	// Another one is another's.
	b.sayAll("d", "e", "f")
	s, err = b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "stopped again", s, session.Stopped{Phase: "idle", Fence: fence, Dropped: 3})
}

// A retry begins anew: what the failed attempt had done is not the next one's.
func TestRetryForgetsTheFailedAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	expect.OK(t, h.Checkpoint(b.ctx, []session.Entry{{Role: session.RoleAssistant, Text: "half"}}))
	expect.OK(t, h.Retry(b.ctx, errors.New("flaky"), 0))
	past, err := b.start().History(b.ctx)
	expect.OK(t, err)
	if past.Partial != nil {
		t.Errorf("the second attempt goes on from %+v", past.Partial.Entries)
	}
}

// What an earlier run had done that was cut off stays, if the failed attempt had
// stored nothing of its own.
func TestRetryKeepsWhatWasInherited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	expect.OK(t, h.Requeue(b.ctx, "drain", session.Entry{Role: session.RoleAssistant, Text: "half"}))
	h = b.start()
	expect.OK(t, h.Retry(b.ctx, errors.New("flaky"), 0))
	past, err := b.start().History(b.ctx)
	expect.OK(t, err)
	if past.Partial == nil || past.Partial.Entries[0].Text != "half" {
		t.Errorf("inherited: %+v", past.Partial)
	}
}

// A turn that somebody has told to end is not cut off by a drain: the message that
// comes next is told of no interruption.
func TestMarkOfATurnThatIsToEnd(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(b *bench){
		"stop":      func(b *bench) { _, err := b.client.Stop(b.ctx, key); expect.OK(b, err) },
		"interrupt": func(b *bench) { b.say("i", session.ModeInterrupt) },
		"rollback":  func(b *bench) { b.say("i", session.ModeRollback) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			h := b.start()
			ask(b)
			b.mark(h, "shutdown_timeout")
			if err := h.Requeue(b.ctx, "shutdown_timeout"); err == nil {
				t.Error("the turn was given back")
			}
			_, err := h.Finish(b.ctx, sq.End{Status: session.StatusStopped, Release: true})
			expect.OK(t, err)
			b.say("next")
			expect.Equal(t, "resume reason of the next turn", b.claim().Turn().Resume, "")
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
			b := newBench(t)
			b.say("a")
			h := b.start()
			faults := &redistest.Faults{}
			b.rdb.AddHook(faults)
			faults.FailBefore(called("finish"), 2, redistest.AnswerError(text))
			b.finish(h)
			expect.Equal(t, "end", b.outcome("a").Status, session.StatusDone)
		})
	}
}

// What is known of a turn that was cut off belongs to its conversation: a /new in
// mid-turn leaves it behind, however the turn ends.
func TestNewConversationHasNoOldMark(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bench, h *sq.Claim){
		"failed": func(b *bench, h *sq.Claim) {
			_, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "no", Release: true})
			expect.OK(b, err)
		},
		"given back": func(b *bench, h *sq.Claim) {
			b.c.Mark(b.ctx, []*sq.Claim{h}, "drain")
			expect.OK(b, h.Requeue(b.ctx, "drain", session.Entry{Role: session.RoleUser, Text: "a"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.sayAll("a", "b")
			b.start()
			b.die()
			h := b.start() // marked by now
			expect.Equal(t, "mark", h.Turn().Resume, "crash")
			_, err := b.client.Rotate(b.ctx, key, "")
			expect.OK(t, err)
			end(b, h)
			next := b.start()
			expect.Equal(t, "mark of the new conversation", next.Turn().Resume, "")
			past, err := next.History(b.ctx)
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
	b := newBench(t, func(c *sq.Config) { c.Line.Cap = 1; c.Line.Drop = "summarize" })
	b.say("a")
	h := b.start()
	b.say("lost")
	b.say("b")
	b.finish(h)
	expect.Equal(t, "dropped, as b is told", len(h.Turn().Dropped), 1)
	b.say("c")
	expect.OK(t, h.Promote(b.ctx))
	b.rdb.Del(b.ctx, b.k.Followups()) // nothing is special about the end of b's turn
	more, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	expect.Equal(t, "goes on", more, true)
	expect.Equal(t, "dropped, as c is told", len(h.Turn().Dropped), 1)
}

// For the last millisecond of its life a sentinel's PTTL is 0, and it is there: a
// session that is called ready then is claimed in vain, and its wake-up is lost.
func TestLookAtASentinelsLastMillisecond(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.StuckLimit = 1000 })
	b.say("a")
	for range 30 {
		b.start() // must not be held any more
		expect.OK(t, b.rdb.PExpire(b.ctx, b.k.Sentinel(), 3*time.Millisecond).Err())
		what := "held"
		for what == "held" {
			reply, err := sq.Do(b.ctx, b.rdb, "look", sq.KeysOf(key, ""), nil).Slice()
			expect.OK(t, err)
			what, _ = reply[1].(string)
		}
		expect.Equal(t, "after the sentinel's end", what, "ready")
	}
}

// A dead owner's run record that has lost a field still lets the session go on:
// the claim must not fail behind its first write.
func TestClaimBehindARunRecordWithAHole(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"sid", "fence", "ids"} {
		for _, mode := range []session.Mode{session.ModeQueue, session.ModeInterrupt, session.ModeRollback} {
			t.Run(field+" "+string(mode), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.say("a")
				expect.OK(t, b.start().Checkpoint(b.ctx, []session.Entry{{Role: session.RoleUser, Text: "a"}}))
				b.say("b", mode)
				expect.OK(t, b.rdb.HDel(b.ctx, b.k.Run(), field).Err())
				b.die()
				b.drain()
				for _, id := range []string{"a", "b"} {
					b.outcome(id)
				}
			})
		}
	}
}
