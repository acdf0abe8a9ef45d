package protocol_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"turnstile/internal/lease"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// First invariant: whoever lost the session, or speaks of the turn before,
// changes nothing.
func TestLostHoldersWriteNothing(t *testing.T) {
	t.Parallel()
	moves := map[string]func(b *bench, h *sq.Claim) error{
		"promote": func(b *bench, h *sq.Claim) error { return h.Promote(b.ctx) },
		"emit":    func(b *bench, h *sq.Claim) error { return h.Emit(b.ctx, []session.Event{{Type: session.EventNotice}}) },
		"finish": func(b *bench, h *sq.Claim) error {
			_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Entries: []session.Entry{{Text: "late"}}})
			return err
		},
		"archive": func(b *bench, h *sq.Claim) error {
			_, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "late"})
			return err
		},
		"retry":   func(b *bench, h *sq.Claim) error { return h.Retry(b.ctx, errors.New("late"), time.Second) },
		"requeue": func(b *bench, h *sq.Claim) error { return h.Requeue(b.ctx, "late") },
		"renew":   func(b *bench, h *sq.Claim) error { return b.c.Renew(b.ctx, []*sq.Claim{h})[0].Err },
	}
	losses := map[string]func(b *bench){
		"expired":             func(b *bench) { b.die() },
		"another's":           func(b *bench) { b.die(); b.start() },
		"another's, starting": func(b *bench) { b.die(); b.claim() },
		"run by another":      func(b *bench) { b.die(); b.drain() },
		"forgotten":           func(b *bench) { b.rdb.Del(b.ctx, b.k.Sentinel(), b.k.Run()) },
		"same token, later fence": func(b *bench) {
			b.rdb.HSet(b.ctx, b.k.Run(), "fence", time.Now().Add(time.Hour).UnixMilli())
		},
	}
	for name, move := range moves {
		for how, lose := range losses {
			if name == "renew" && how == "same token, later fence" {
				continue // a renewal is of the token
			}
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.sayAll("a", "b")
				h := b.start()
				lose(b)
				before := b.dump()
				err := move(b, h)
				if !errors.Is(err, lease.ErrLost) {
					t.Errorf("%s: %v", name, err)
				}
				same(t, "a lost holder's "+name, before, b.dump())
				if !errors.Is(h.Lease().Held(), lease.ErrLost) {
					t.Error("the lease goes on")
				}
			})
		}
	}
}

// The fence rises with every turn, also when what it was is lost or lies ahead
// of the clock.
func TestFenceRises(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ids []string
	for i := range 12 {
		ids = append(ids, fmt.Sprint("m", i))
	}
	b.sayAll(ids...)
	var last int64
	rises := func(how string, h *sq.Claim) {
		t.Helper()
		f := h.Turn().Fence
		if f <= last {
			t.Errorf("%s: the fence fell from %d to %d", how, last, f)
		}
		expect.Equal(t, how+": turn id", h.Turn().ID, fmt.Sprint(rediskey.IDPrefix(key), f))
		last = f
	}
	h := b.claim()
	rises("claim", h)
	for range 3 { // several in a millisecond
		b.finish(h)
		rises("next", h)
	}
	expect.OK(t, h.Requeue(b.ctx, "drain"))
	h = b.claim()
	rises("claim after requeue", h)
	b.die()
	h = b.claim()
	rises("claim after a crash", h)
	expect.OK(t, h.Retry(b.ctx, errors.New("x"), 0))

	ahead := time.Now().Add(time.Hour).UnixMilli()
	b.rdb.HSet(b.ctx, b.k.Run(), "fence", ahead)
	last = ahead
	h = b.claim()
	rises("claim with the stored fence ahead of the clock", h)
	expect.Equal(t, "by", h.Turn().Fence, ahead+1)
	b.finish(h)
	rises("next with the stored fence ahead of the clock", h)
	b.die()
	h = b.claim()
	rises("after a crash with the fence ahead", h)
	expect.OK(t, h.Requeue(b.ctx, "x"))
	last = time.Now().Add(-time.Second).UnixMilli()
	b.rdb.Del(b.ctx, b.k.Run(), b.k.Record())
	rises("after both records were lost", b.claim())
}

// Events of one batch are written once, a later turn's numbers begin again.
func TestEmit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	h := b.start()
	say := func(text string) {
		t.Helper()
		expect.OK(t, h.Emit(b.ctx, []session.Event{{Type: session.EventNotice, Turn: h.Turn().ID, Text: text}, {Type: session.EventNotice, Turn: h.Turn().ID, Text: text + "!"}}))
	}
	expect.OK(t, h.Emit(b.ctx, nil))
	say("1")
	say("2")
	b.finish(h)
	expect.OK(t, h.Promote(b.ctx))
	say("3")
	b.finish(h)
	var heard []string
	for _, id := range []string{"a", "b"} {
		_, err := b.client.Follow(b.ctx, key, id, func(e session.Event) {
			if e.Type == session.EventNotice {
				heard = append(heard, e.Text)
			}
		})
		expect.OK(t, err)
	}
	expect.List(t, "heard", heard, "1", "1!", "2", "2!", "3", "3!")
}

// TURN_SHARE: a turn's end may give the session up although more waits.
func TestReleaseThoughMoreWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	h := b.start()
	b.rdb.Del(b.ctx, rediskey.Ready)
	more, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Release: true})
	expect.OK(t, err)
	expect.Equal(t, "more", more, false)
	expect.List(t, "the line", b.waiting(), "b")
	expect.Equal(t, "sentinels", b.rdb.Exists(b.ctx, b.k.Sentinel()).Val(), 0)
	wait, err := b.c.OthersWait(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "announced", wait, true)
	sessions, err := b.c.Pop(b.ctx, 5)
	expect.OK(t, err)
	expect.List(t, "popped", sessions, key)
	expect.OK(t, b.c.PutBack(b.ctx, sessions))
	expect.Equal(t, "put back", b.isIn(rediskey.Ready, key), true)
	expect.List(t, "runs", b.drain(), "b")
}

// Two workers of different settings: the follower judges by its own.
func TestForeignTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for id, payload := range map[string]string{"text": "hello", "version": `{"v":7,"text":"x"}`, "empty": `{"v":1,"text":""}`, "nothing": ""} {
		t.Run(id, func(t *testing.T) {
			b := newBench(t)
			b.enqueueRaw(session.TaskType, payload, id)
			h := b.claim()
			if !errors.Is(h.Turn().Err, session.ErrInvalid) {
				t.Errorf("err: %v", h.Turn().Err)
			}
			expect.Equal(t, "id", h.Turn().Message.ID, id)
			_, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: h.Turn().Err.Error()})
			expect.OK(t, err)
			expect.Equal(t, "state", b.rdb.HGet(b.ctx, b.k.Task(id), "state").Val(), "archived")
		})
	}
	b.enqueueRaw("email:welcome", `{"v":1,"text":"x"}`, "other")
	if err := b.claim().Turn().Err; !errors.Is(err, session.ErrInvalid) {
		t.Errorf("another task type: %v", err)
	}
}

// A task whose msg is no protobuf at all does not stop its session.
func TestBrokenTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	b.rdb.HSet(b.ctx, b.k.Task(b.task("a")), "msg", "\xff\xff\xff")
	h := b.claim()
	if h.Turn().Err == nil {
		t.Error("no error")
	}
	more, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: h.Turn().Err.Error()})
	expect.OK(t, err)
	expect.Equal(t, "goes on", more, true)
}
