package protocol_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func (b *bench) resume() resume.Record {
	b.Helper()
	r, err := b.client.ResumeRecord(b.ctx, key)
	expect.OK(b, err)
	return r
}

func TestCrashWhileRunningIsMarked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	b.start()
	b.die()
	h := b.claim()
	turn := h.Turn()
	expect.Equal(t, "message", turn.Message.ID, "a")
	expect.Equal(t, "resume", turn.Resume, resume.ReasonCrash)
	expect.Equal(t, "redelivered", turn.Redelivered, 1)
	expect.Equal(t, "attempt", turn.Attempt, 1)
	r := b.resume()
	if !r.Pending || r.Reason != resume.ReasonCrash || r.Interruptions != 1 || time.Since(r.MarkedAt) > time.Minute || r.Suspended {
		t.Errorf("record: %+v", r)
	}
	// Only a finished turn clears it.
	expect.OK(t, h.Promote(b.ctx))
	more, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	expect.Equal(t, "goes on", more, true)
	expect.Equal(t, "interruptions after a failed turn", b.resume().Interruptions, 1)
	b.finish(h)
	expect.Equal(t, "record after a finished turn", b.resume(), resume.Record{})
}

func TestCrashWhileStartingIsNotMarked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.claim()
	b.die()
	turn := b.claim().Turn()
	expect.Equal(t, "resume", turn.Resume, "")
	expect.Equal(t, "redelivered", turn.Redelivered, 1)
	expect.Equal(t, "record", b.resume(), resume.Record{})
}

// A worker without a starting phase is one whose every death counts, once it was heard
// of.
func TestCrashOfAnImmediateTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.Immediate = true })
	b.say("a")
	h := b.claim()
	expect.Equal(t, "phase", b.info().Phase, "running")
	expect.OK(t, h.Promote(b.ctx))
	b.renew(h)
	b.die()
	expect.Equal(t, "resume", b.claim().Turn().Resume, resume.ReasonCrash)
}

func TestStopAskedOfADeadTurn(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"stop, then death", "death, then stop"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.sayAll("a", "b")
			h := b.start()
			if strings.HasPrefix(order, "death") {
				b.die()
			}
			s, err := b.client.Stop(b.ctx, key)
			expect.OK(t, err)
			expect.Equal(t, "found", s.Phase, "running")
			expect.Equal(t, "of turn", s.Fence, h.Turn().Fence)
			expect.Equal(t, "dropped", s.Dropped, 1)
			b.die()
			b.say("c")
			expect.List(t, "runs", b.drain(), "c")
			o := b.outcome("a")
			expect.Equal(t, "status", o.Status, session.StatusStopped)
			expect.Equal(t, "error", o.Error, "stopped by user")
			expect.Equal(t, "turn", o.Turn, h.Turn().ID)
			expect.Equal(t, "b", b.outcome("b").Status, session.StatusStopped)
			expect.Equal(t, "record", b.resume(), resume.Record{})
		})
	}
}

// The same when nothing else waits: the claim cleans up and owns nothing.
func TestStopAskedOfADeadTurnAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.start()
	_, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	b.die()
	b.claimNothing("its only message was stopped")
	expect.Equal(t, "status", b.outcome("a").Status, session.StatusStopped)
	expect.Equal(t, "sentinels", b.rdb.Exists(b.ctx, b.k.Sentinel(), b.k.Active(), b.k.Lease()).Val(), 0)
	expect.Equal(t, "phase", b.rdb.HGet(b.ctx, b.k.Run(), "phase").Val(), "idle")
	b.say("b")
	expect.List(t, "runs", b.drain(), "b")
}

func TestInterruptAskedOfADeadTurn(t *testing.T) {
	t.Parallel()
	for _, retention := range []time.Duration{0, time.Hour} {
		t.Run(retention.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *sq.Config) { c.Retention = retention })
			b.sayAll("a", "b")
			h := b.start()
			expect.OK(t, h.Checkpoint(b.ctx, []session.Entry{{Role: session.RoleUser, Text: "a"}}))
			b.say("urgent", session.ModeInterrupt)
			b.die()
			wait := make(chan session.Outcome, 1)
			go func() {
				o, _ := b.client.Wait(b.ctx, key, "a")
				wait <- o
			}()
			expect.List(t, "runs", b.drain(), "urgent", "b")
			o := <-wait
			expect.Equal(t, "status", o.Status, session.StatusInterrupted)
			expect.Equal(t, "record", b.resume(), resume.Record{})
			if retention == 0 {
				expect.Equal(t, "kept", b.state("a"), "")
			} else {
				expect.Equal(t, "kept", b.state("a"), "completed")
			}
			expect.Equal(t, "the transcript begins with", b.transcript(o.SessionID)[0], "a")
		})
	}
	t.Run("nothing of it was stored", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.say("a")
		b.start()
		b.say("urgent", session.ModeInterrupt)
		b.die()
		expect.List(t, "runs", b.drain(), "urgent")
		expect.Equal(t, "status", b.outcome("a").Status, session.StatusInterrupted)
		expect.Equal(t, "it can be seen", b.state("a"), "archived")
	})
}

// What takes the running turn's place is not refused because the line is full.
func TestInterruptIntoAFullLine(t *testing.T) {
	t.Parallel()
	for _, mode := range []session.Mode{session.ModeInterrupt, session.ModeRollback} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *sq.Config) { c.Line.Cap = 1 })
			b.say("a")
			b.start()
			b.say("b")
			expect.Equal(t, "a further one", b.say("c").Status, turnstile.Refused)
			expect.Equal(t, "an urgent one", b.say("d", mode).Position, 2)
			expect.List(t, "the line", b.waiting(), "d", "b")
		})
	}
}

// Sixth invariant: a message that keeps killing its worker ends in the archive,
// and the session begins anew.
func TestStuckSession(t *testing.T) {
	t.Parallel()
	for _, waiting := range []bool{true, false} {
		t.Run(fmt.Sprintf("others wait %v", waiting), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("poison")
			if waiting {
				b.say("b")
			}
			var old string
			for n := range 3 {
				h := b.start()
				expect.Equal(t, "message", h.Turn().Message.ID, "poison")
				expect.Equal(t, "interruptions", b.resume().Interruptions, n)
				old = h.Turn().SessionID
				b.die()
			}
			if !waiting {
				b.claimNothing("its only message was given up")
				expect.Equal(t, "suspended", b.resume().Suspended, true)
				b.say("b")
			}
			h := b.claim()
			turn := h.Turn()
			expect.Equal(t, "next message", turn.Message.ID, "b")
			expect.Equal(t, "reset", turn.Reset, "suspended")
			expect.Equal(t, "resume", turn.Resume, "")
			expect.Equal(t, "entries", turn.Entries, 0)
			if turn.SessionID == old {
				t.Error("the session id is the old one")
			}
			o := b.outcome("poison")
			expect.Equal(t, "status", o.Status, session.StatusFailed)
			if !strings.Contains(o.Error, "3 turns in a row") {
				t.Errorf("error: %q", o.Error)
			}
			expect.Equal(t, "record", b.resume(), resume.Record{})
			expect.OK(t, h.Promote(b.ctx))
			b.finish(h)
			b.say("c")
			h = b.claim()
			expect.Equal(t, "reset of the turn after", h.Turn().Reset, "")
			expect.Equal(t, "session id", h.Turn().SessionID, turn.SessionID)
			expect.Equal(t, "entries", h.Turn().Entries, 2)
		})
	}
}

func TestFinishedTurnResetsTheCounter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"a", "b"} {
		b.say(id)
		for range 2 {
			b.start()
			b.die()
		}
		h := b.start()
		expect.Equal(t, "message", h.Turn().Message.ID, id)
		b.finish(h)
		expect.Equal(t, "interruptions", b.resume().Interruptions, 0)
	}
}

// The dead owner's session is recovered within the sentinel's time and a second,
// however short that time is.
func TestCrashIsNoticedInTime(t *testing.T) {
	t.Parallel()
	for _, turn := range []string{"first", "later"} {
		t.Run(turn, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *sq.Config) { c.SentinelTTL = 300 * time.Millisecond })
			b.sayAll("a", "b")
			sessions, err := b.c.Pop(b.ctx, 1)
			expect.OK(t, err)
			holds, err := b.c.Claim(b.ctx, sessions)
			expect.OK(t, err)
			if turn == "later" {
				b.finish(holds[0])
			}
			died := time.Now()
			const limit = 1300 * time.Millisecond
			expect.Soon(t, "the recovery", func() bool {
				b.reap()
				return b.isIn(rediskey.Ready, key) || time.Since(died) > limit
			})
			if time.Since(died) > limit {
				t.Errorf("not recovered %s after its last renewal", limit)
			}
		})
	}
}

// An owner that goes on renewing stays in the index that finds dead owners,
// whatever took it out.
func TestRenewalsKeepTheSessionOwned(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	b.rdb.Del(b.ctx, rediskey.Owned)
	expect.OK(t, b.c.Renew(b.ctx, []*sq.Claim{h})[0].Err)
	if !b.isIn(rediskey.Owned, key) {
		t.Error("an owned session is not in the owned index: when its worker dies only a sweep finds it")
	}
}

// The interruptions that CRASH_POLICY=suspend has counted outlive a claim that finds
// that it has to wait, and one whose reply was lost: the message may be what kills the
// workers.
func TestCrashesAreCountedThroughASuspension(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(b *bench){
		"at once": func(*bench) {},
		"after a wait": func(b *bench) {
			expect.OK(b, b.rdb.Del(b.ctx, b.k.Task(b.task("a")), b.k.Lease()).Err())
			b.rdb.HSet(b.ctx, b.k.Task(b.task("b")), "quiet", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), " 100"))
			b.claimNothing("b waits for more")
			b.windowsEnd("b")
		},
		"after a lost reply": func(b *bench) {
			b.loseClaim("claim")
			expect.OK(b, b.c.Unclaim(b.ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, crashSuspends)
			b.say("a")
			h := b.start()
			b.say("b")
			b.renew(h)
			b.die()
			between(b)
			turn := b.claim().Turn()
			expect.Equal(t, "reset", turn.Reset, "suspended")
			expect.Equal(t, "interruptions", b.resume().Interruptions, 1)
			expect.Equal(t, "carried", b.rdb.HExists(b.ctx, b.k.Resume(), "carried").Val(), false)
		})
	}
}
