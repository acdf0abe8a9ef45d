package protocol_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// First invariant: an owner that has lost the session, or names an earlier turn, changes nothing.
func TestLostOwnersWriteNothing(t *testing.T) {
	t.Parallel()
	moves := map[string]func(b *actors.Bench, h *protocol.Claim) error{
		"promote": func(b *actors.Bench, h *protocol.Claim) error { return h.Promote(b.Ctx) },
		"emit": func(b *actors.Bench, h *protocol.Claim) error {
			return h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice}})
		},
		"finish": func(b *actors.Bench, h *protocol.Claim) error {
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Entries: []session.Entry{{Text: "late"}}})
			return err
		},
		"archive": func(b *actors.Bench, h *protocol.Claim) error {
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "late"})
			return err
		},
		"retry": func(b *actors.Bench, h *protocol.Claim) error {
			return h.Park(b.Ctx, protocol.Parking{Failed: errors.New("late"), Wait: time.Second})
		},
		"requeue": func(b *actors.Bench, h *protocol.Claim) error {
			return h.Park(b.Ctx, protocol.Parking{Interrupted: "late"})
		},
		"renew": func(b *actors.Bench, h *protocol.Claim) error {
			return b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err
		},
	}
	losses := map[string]func(b *actors.Bench){
		"expired":             func(b *actors.Bench) { b.Die() },
		"another's":           func(b *actors.Bench) { b.Die(); b.Start() },
		"another's, starting": func(b *actors.Bench) { b.Die(); b.Claim() },
		"run by another":      func(b *actors.Bench) { b.Die(); b.Drain() },
		"forgotten":           func(b *actors.Bench) { b.Redis.Del(b.Ctx, b.Keys.Sentinel(), b.Keys.Run()) },
		"same token, later fence": func(b *actors.Bench) {
			b.Redis.HSet(b.Ctx, b.Keys.Run(), "fence", time.Now().Add(time.Hour).UnixMilli())
		},
	}
	for name, move := range moves {
		for how, lose := range losses {
			if name == "renew" && how == "same token, later fence" {
				continue // a renewal is for the token
			}
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				b.SayAll("a", "b")
				h := b.Start()
				lose(b)
				before := b.Dump()
				err := move(b, h)
				if !errors.Is(err, lease.ErrLost) {
					t.Errorf("%s: %v", name, err)
				}
				actors.Same(t, "a lost holder's "+name, before, b.Dump())
				if !errors.Is(h.Lease().Held(), lease.ErrLost) {
					t.Error("the lease is still valid")
				}
			})
		}
	}
}

// The fencing token rises with every turn, also when the last one was lost or is ahead of the
// clock.
func TestFenceRises(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	var ids []string
	for i := range 12 {
		ids = append(ids, fmt.Sprint("m", i))
	}
	b.SayAll(ids...)
	var last int64
	rises := func(how string, h *protocol.Claim) {
		t.Helper()
		f := h.Turn().Fence
		if f <= last {
			t.Errorf("%s: the fence fell from %d to %d", how, last, f)
		}
		expect.Equal(t, how+": turn id", h.Turn().ID, fmt.Sprint(rediskey.IDPrefix(actors.Key), f))
		last = f
	}
	h := b.Claim()
	rises("claim", h)
	for range 3 { // several in a millisecond
		b.Finish(h)
		rises("next", h)
	}
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
	h = b.Claim()
	rises("claim after requeue", h)
	b.Die()
	h = b.Claim()
	rises("claim after a crash", h)
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("x")}))

	ahead := time.Now().Add(time.Hour).UnixMilli()
	b.Redis.HSet(b.Ctx, b.Keys.Run(), "fence", ahead)
	last = ahead
	h = b.Claim()
	rises("claim with the stored fence ahead of the clock", h)
	expect.Equal(t, "by", h.Turn().Fence, ahead+1)
	b.Finish(h)
	rises("next with the stored fence ahead of the clock", h)
	b.Die()
	h = b.Claim()
	rises("after a crash with the fence ahead", h)
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "x"}))
	last = time.Now().Add(-time.Second).UnixMilli()
	b.Redis.Del(b.Ctx, b.Keys.Run(), b.Keys.Record())
	rises("after both records were lost", b.Claim())
}

// The events of a batch are written once. A later turn's numbers begin again.
func TestEmit(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	h := b.Start()
	say := func(text string) {
		t.Helper()
		expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Turn: h.Turn().ID, Text: text}, {Type: session.EventNotice, Turn: h.Turn().ID, Text: text + "!"}}))
	}
	expect.OK(t, h.Emit(b.Ctx, nil))
	say("1")
	say("2")
	b.Finish(h)
	expect.OK(t, h.Promote(b.Ctx))
	say("3")
	b.Finish(h)
	var heard []string
	for _, id := range []string{"a", "b"} {
		_, err := actors.Follow(b.Ctx, b.Client.Session(actors.Key), id, func(e session.Event) {
			if e.Type == session.EventNotice {
				heard = append(heard, e.Text)
			}
		})
		expect.OK(t, err)
	}
	expect.List(t, "heard", heard, "1", "1!", "2", "2!", "3", "3!")
}

// A session's share: the end of a turn may release the session although more messages wait.
func TestReleaseThoughMoreWaits(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	h := b.Start()
	b.Redis.Del(b.Ctx, rediskey.Ready)
	more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
	expect.OK(t, err)
	expect.Equal(t, "more", more, false)
	expect.List(t, "the line", b.Waiting(), "b")
	expect.Equal(t, "sentinels", b.Redis.Exists(b.Ctx, b.Keys.Sentinel()).Val(), 0)
	line, err := b.Worker.Line(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "announced", line.Any, true)
	sessions, err := b.Worker.Pop(b.Ctx, 5)
	expect.OK(t, err)
	expect.List(t, "popped", sessions, actors.Key)
	expect.OK(t, b.Worker.PutBack(b.Ctx, sessions))
	expect.Equal(t, "put back", b.IsIn(rediskey.Ready, actors.Key), true)
	expect.List(t, "runs", b.Drain(), "b")
}
