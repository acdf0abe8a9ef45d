package protocol_test

import (
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A mark from outside in mid-turn ends with the turn, also on the fast path, which does not look
// for it.
func TestMarkInMidTurnGoesWithIt(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(b *actors.Bench) (bool, error){
		"marked":    func(b *actors.Bench) (bool, error) { return resume.Mark(b.Ctx, b.Redis, actors.Key, "") },
		"suspended": func(b *actors.Bench) (bool, error) { return resume.Suspend(b.Ctx, b.Redis, actors.Key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.SayAll("a", "b")
			h := b.Start()
			id := h.Turn().TranscriptID
			_, err := write(b)
			expect.OK(t, err)
			expect.Equal(t, "more", b.Finish(h), true)
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
			expect.Equal(t, "more", b.Finish(h), false)
			b.Say("c")
			turn := b.Claim().Turn()
			expect.Equal(t, "session id", turn.TranscriptID, id)
			expect.Equal(t, "reset", turn.Reset, "")
			expect.Equal(t, "mark", turn.Resume, "")
		})
	}
}

// A mark before the first turn is for that turn, also if the run record was lost.
func TestMarkBeforeTheFirstTurn(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]bool{"first": false, "run was lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			if lose {
				b.Say("before")
				b.Drain()
			}
			_, err := resume.Mark(b.Ctx, b.Redis, actors.Key, "")
			expect.OK(t, err)
			b.Say("a")
			if !lose {
				_, err := resume.Mark(b.Ctx, b.Redis, actors.Key, "")
				expect.OK(t, err)
			} else {
				b.Redis.Del(b.Ctx, b.Keys.Run())
			}
			h := b.Start()
			expect.Equal(t, "mark", h.Turn().Resume, resume.ReasonRestart)
			b.Finish(h)
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
		})
	}
}

// A turn that was renewed ends on the full path, and the next one on the fast path.
func TestFastPathAfterARenewal(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b", "c")
	seen := &fastCalls{}
	h := b.Start()
	expect.OK(t, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err)
	b.Redis.AddHook(seen)
	b.Finish(h)
	expect.Equal(t, "leases", b.Redis.ZCard(b.Ctx, b.Keys.Lease()).Val(), 0)
	expect.Equal(t, "fast ends that were tried", seen.plain+seen.special, 0)
	expect.OK(t, h.Promote(b.Ctx))
	b.Finish(h)
	expect.Equal(t, "fast ends", seen.plain, 1)
}

// A worker died, and its message is no longer active: the recovery of a stock asynq.Server has
// archived it. The next turn gets the mark, and the mark ends with it.
func TestMarkOfADeadTurnWithoutItsMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	b.Start()
	b.Die()
	b.Redis.Del(b.Ctx, b.Keys.Active())
	h := b.Start()
	expect.Equal(t, "mark", h.Turn().Resume, resume.ReasonCrash)
	b.Finish(h)
	expect.Equal(t, "record", resumeRecord(b), resume.Record{})
}
