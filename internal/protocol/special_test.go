package protocol_test

import (
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/test/expect"
)

// What somebody writes from outside while a turn runs is gone with the turn, also
// where it is a plain one and does not look for it.
func TestMarkInMidTurnGoesWithIt(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(b *bench) (bool, error){
		"marked":    func(b *bench) (bool, error) { return resume.Mark(b.ctx, b.rdb, key, "") },
		"suspended": func(b *bench) (bool, error) { return resume.Suspend(b.ctx, b.rdb, key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.sayAll("a", "b")
			h := b.start()
			id := h.Turn().SessionID
			_, err := write(b)
			expect.OK(t, err)
			expect.Equal(t, "more", b.finish(h), true)
			expect.Equal(t, "record", b.resume(), resume.Record{})
			expect.Equal(t, "more", b.finish(h), false)
			b.say("c")
			turn := b.claim().Turn()
			expect.Equal(t, "session id", turn.SessionID, id)
			expect.Equal(t, "reset", turn.Reset, "")
			expect.Equal(t, "mark", turn.Resume, "")
		})
	}
}

// What there is about a session before its first turn is for that one, and so it is
// where the run record was lost.
func TestMarkBeforeTheFirstTurn(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]bool{"first": false, "run was lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if lose {
				b.say("before")
				b.drain()
			}
			_, err := resume.Mark(b.ctx, b.rdb, key, "")
			expect.OK(t, err)
			b.say("a")
			if !lose {
				_, err := resume.Mark(b.ctx, b.rdb, key, "")
				expect.OK(t, err)
			} else {
				b.rdb.Del(b.ctx, b.k.Run())
			}
			h := b.start()
			expect.Equal(t, "mark", h.Turn().Resume, resume.ReasonRestart)
			b.finish(h)
			expect.Equal(t, "record", b.resume(), resume.Record{})
		})
	}
}

// A turn that was renewed is no plain one; the next is again.
func TestPlainAgainAfterARenewal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b", "c")
	seen := &answers{}
	h := b.start()
	expect.OK(t, b.c.Renew(b.ctx, []*sq.Claim{h})[0].Err)
	b.rdb.AddHook(seen)
	b.finish(h)
	expect.Equal(t, "leases", b.rdb.ZCard(b.ctx, b.k.Lease()).Val(), 0)
	expect.Equal(t, "plain ends that were tried", seen.plain+seen.special, 0)
	expect.OK(t, h.Promote(b.ctx))
	b.finish(h)
	expect.Equal(t, "plain ends", seen.plain, 1)
}

// A worker died, and its message is gone from the active ones: a stock asynq.Server's
// recovery has archived it. The mark is the next turn's, and ends with it.
func TestMarkOfADeadTurnWithoutItsMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	b.start()
	b.die()
	b.rdb.Del(b.ctx, b.k.Active())
	h := b.start()
	expect.Equal(t, "mark", h.Turn().Resume, resume.ReasonCrash)
	b.finish(h)
	expect.Equal(t, "record", b.resume(), resume.Record{})
}
