package protocol_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/redisconn"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The protocol's core on every kind of Redis that a URL can name.

func TestOnCluster(t *testing.T) {
	t.Parallel()
	core(t, func(t *testing.T) string { return redistest.StartCluster(t).URL() })
}

func TestOnFailover(t *testing.T) {
	t.Parallel()
	core(t, func(t *testing.T) string { return redistest.StartFailover(t).URL() })
}

func TestOnEmbedded(t *testing.T) {
	t.Parallel()
	core(t, func(t *testing.T) string {
		s := miniredis.RunT(t)
		return "redis://" + s.Addr() + "/0"
	})
}

func core(t *testing.T, start func(*testing.T) string) {
	rdb, err := redisconn.Open(start(t), redisconn.WithPoolSize(10))
	expect.OK(t, err)
	t.Cleanup(func() { rdb.Close() })
	b := benchOn(t, rdb)

	// Submit, claim, finish, next, release.
	for _, id := range []string{"a", "b", "c"} {
		expect.Equal(t, "status", b.say(id).Status, turnstile.Accepted)
	}
	backlog, err := b.client.Backlog(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "sessions in ready", backlog.Ready, 1)
	expect.Equal(t, "sessions in owned", backlog.Owned, 1)
	expect.Equal(t, "sessions in due", backlog.Due, 0)
	expect.List(t, "popped", b.pop(), key)
	h := b.start()
	sid := h.Turn().SessionID
	expect.Equal(t, "queued", b.say("d").Position, 4)
	expect.Equal(t, "duplicate", b.say("d").Status, turnstile.Duplicate)
	expect.Equal(t, "refused", b.say("no", session.ModeReject).Status, turnstile.Refused)
	expect.OK(t, h.Emit(b.ctx, []session.Event{{Type: session.EventNotice, Turn: h.Turn().ID, Text: "hi"}}))
	expect.OK(t, b.c.Renew(b.ctx, []*sq.Claim{h})[0].Err)
	got := b.waitFor("d")
	fence := h.Turn().Fence
	expect.Equal(t, "goes on", b.finish(h), true)
	if h.Turn().Fence <= fence {
		t.Error("the fence fell")
	}

	// Retry, requeue, crash.
	expect.OK(t, h.Promote(b.ctx))
	expect.OK(t, h.Retry(b.ctx, errors.New("flaky"), time.Second))
	b.claimNothing("it has to wait")
	expect.Soon(t, "the backoff's end", func() bool { b.due(); return b.isIn(rediskey.Ready, key) })
	h = b.start()
	expect.Equal(t, "attempt", h.Turn().Attempt, 2)
	expect.OK(t, h.Requeue(b.ctx, "drain"))
	h = b.start()
	expect.Equal(t, "redelivered", h.Turn().Redelivered, 1)
	b.die()
	b.overdue(rediskey.Owned)
	b.pop()
	expect.Equal(t, "recovered", b.reap(), 1)
	expect.List(t, "popped", b.pop(), key)
	h = b.start()
	expect.Equal(t, "message", h.Turn().Message.ID, "b")
	expect.Equal(t, "resume", h.Turn().Resume, "crash")
	told := b.past(h).Entries
	expect.Equal(t, "entries told", len(told), 2)
	expect.Equal(t, "of which the last", told[1].Text, "re: a")

	// Interrupt, stop.
	expect.Equal(t, "urgent", b.say("urgent", session.ModeInterrupt).Position, 2)
	if r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]; !errors.Is(r.Requested, sq.ErrInterruptRequested) {
		t.Errorf("asked: %v", r.Requested)
	}
	_, err = h.Finish(b.ctx, sq.End{Status: session.StatusInterrupted})
	expect.OK(t, err)
	expect.Equal(t, "next", h.Turn().Message.ID, "urgent")
	for _, id := range []string{"urgent", "c", "d"} {
		expect.Equal(t, "runs", h.Turn().Message.ID, id)
		b.finish(h)
	}
	expect.Equal(t, "d's end", (<-got).Reply, "re: d")
	expect.List(t, "transcript", b.transcript(sid), "a", "re: a", "urgent", "re: urgent", "c", "re: c", "d", "re: d")
	b.nothingLeft("drained")
	b.sayAll("e", "f", "g")
	h = b.start()
	s, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "dropped", s.Dropped, 2)
	_, err = h.Finish(b.ctx, sq.End{Status: session.StatusStopped})
	expect.OK(t, err)
	expect.Equal(t, "stopped", b.outcome("g").Status, session.StatusStopped)
	b.nothingLeft("stopped")
	again, err := b.client.Rerun(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "run again", again, 3)
	expect.List(t, "run again", b.drain(), "e", "f", "g")
	b.say("h")
	_, err = b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	gone, err := b.client.DeleteDeadLetters(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "dropped for good", gone, 1)

	// Delayed messages, the sweep, three deaths.
	b.delayed("later2")
	b.delayed("later1")
	expect.List(t, "delayed", b.drain(), "later2", "later1")
	b.enqueue("plain")
	b.rdb.Del(b.ctx, rediskey.Ready)
	expect.Equal(t, "woken", b.sweep(), 1)
	for range 3 {
		b.start()
		b.die()
	}
	b.claimNothing("it was given up")
	expect.Equal(t, "given up", b.outcome("plain").Status, session.StatusFailed)
	b.say("anew")
	h = b.claim()
	expect.Equal(t, "reset", h.Turn().Reset, "suspended")
	b.finish(h)
	_, err = b.client.Rotate(b.ctx, key, "")
	expect.OK(t, err)
	b.rdb.ZAdd(b.ctx, b.k.Completed(), redis.Z{Score: 1, Member: b.task("a")})
	n, err := b.c.Purge(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "purged", n, 1)
	_, err = b.c.Unregister(b.ctx)
	expect.OK(t, err)
	_, err = b.c.Forget(b.ctx)
	expect.OK(t, err)

	// Many sessions in one pipeline, on all masters of a cluster, and more waits for them
	// than there are connections for that.
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprint("s", i))
		_, err := b.client.Submit(b.ctx, keys[i], session.Message{ID: "m", Text: "x"})
		expect.OK(t, err)
	}
	holds, err := b.c.Claim(b.ctx, keys)
	expect.OK(t, err)
	expect.Equal(t, "holds", len(holds), 40)
	for _, r := range b.c.Renew(b.ctx, holds) {
		expect.OK(t, r.Err)
	}
	busy, err := b.client.BusySessions(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "busy", len(busy), 40)
	var waits sync.WaitGroup
	for _, s := range keys {
		waits.Go(func() {
			if o, err := b.client.Wait(b.ctx, s, "m"); err != nil || o.Reply != "re: x" {
				t.Errorf("the wait for %s: %+v, %v", s, o, err)
			}
		})
	}
	for _, h := range holds {
		b.finish(h)
	}
	waits.Wait()
	b.nothingLeft("the end")
}

// nothingLeft: nothing runs and nothing waits.
func (b *bench) nothingLeft(when string) {
	b.Helper()
	if n := b.rdb.Exists(b.ctx, b.k.Sentinel(), b.k.Pending(), b.k.Active(), b.k.Lease(), b.k.Followups()).Val(); n != 0 {
		b.Errorf("%s: %d of sentinel, pending, active, lease and follow-ups are left", when, n)
	}
}
