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
	must(t, err)
	t.Cleanup(func() { rdb.Close() })
	b := benchOn(t, rdb)

	// Submit, claim, finish, next, release.
	for _, id := range []string{"a", "b", "c"} {
		equal(t, "status", b.say(id).Status, turnstile.Accepted)
	}
	backlog, err := b.client.Backlog(b.ctx)
	must(t, err)
	equal(t, "sessions in ready", backlog.Ready, 1)
	equal(t, "sessions in owned", backlog.Owned, 1)
	equal(t, "sessions in due", backlog.Due, 0)
	equalList(t, "popped", b.pop(), key)
	h := b.start()
	sid := h.Turn().SessionID
	equal(t, "queued", b.say("d").Position, 4)
	equal(t, "duplicate", b.say("d").Status, turnstile.Duplicate)
	equal(t, "refused", b.say("no", session.ModeReject).Status, turnstile.Refused)
	must(t, h.Emit(b.ctx, []session.Event{{Type: session.EventNotice, Turn: h.Turn().ID, Text: "hi"}}))
	must(t, b.c.Renew(b.ctx, []*sq.Claim{h})[0].Err)
	got := b.waitFor("d")
	fence := h.Turn().Fence
	equal(t, "goes on", b.finish(h), true)
	if h.Turn().Fence <= fence {
		t.Error("the fence fell")
	}

	// Retry, requeue, crash.
	must(t, h.Promote(b.ctx))
	must(t, h.Retry(b.ctx, errors.New("flaky"), time.Second))
	b.claimNothing("it has to wait")
	await(t, "the backoff's end", func() bool { b.due(); return b.isIn(rediskey.Ready, key) })
	h = b.start()
	equal(t, "attempt", h.Turn().Attempt, 2)
	must(t, h.Requeue(b.ctx, "drain"))
	h = b.start()
	equal(t, "redelivered", h.Turn().Redelivered, 1)
	b.die()
	b.overdue(rediskey.Owned)
	b.pop()
	equal(t, "recovered", b.reap(), 1)
	equalList(t, "popped", b.pop(), key)
	h = b.start()
	equal(t, "message", h.Turn().Message.ID, "b")
	equal(t, "resume", h.Turn().Resume, "crash")
	told := b.past(h).Entries
	equal(t, "entries told", len(told), 2)
	equal(t, "of which the last", told[1].Text, "re: a")

	// Interrupt, stop.
	equal(t, "urgent", b.say("urgent", session.ModeInterrupt).Position, 2)
	if r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]; !errors.Is(r.Asked, sq.ErrInterruptRequested) {
		t.Errorf("asked: %v", r.Asked)
	}
	_, err = h.Finish(b.ctx, sq.End{Status: session.StatusInterrupted})
	must(t, err)
	equal(t, "next", h.Turn().Message.ID, "urgent")
	for _, id := range []string{"urgent", "c", "d"} {
		equal(t, "runs", h.Turn().Message.ID, id)
		b.finish(h)
	}
	equal(t, "d's end", (<-got).Reply, "re: d")
	equalList(t, "transcript", b.transcript(sid), "a", "re: a", "urgent", "re: urgent", "c", "re: c", "d", "re: d")
	b.nothingLeft("drained")
	b.sayAll("e", "f", "g")
	h = b.start()
	s, err := b.client.Stop(b.ctx, key)
	must(t, err)
	equal(t, "dropped", s.Dropped, 2)
	_, err = h.Finish(b.ctx, sq.End{Status: session.StatusStopped})
	must(t, err)
	equal(t, "stopped", b.outcome("g").Status, session.StatusStopped)
	b.nothingLeft("stopped")
	again, err := b.client.Rerun(b.ctx, key)
	must(t, err)
	equal(t, "run again", again, 3)
	equalList(t, "run again", b.drain(), "e", "f", "g")
	b.say("h")
	_, err = b.client.Stop(b.ctx, key)
	must(t, err)
	gone, err := b.client.DeleteDeadLetters(b.ctx, key)
	must(t, err)
	equal(t, "dropped for good", gone, 1)

	// Delayed messages, the sweep, three deaths.
	b.delayed("later2")
	b.delayed("later1")
	equalList(t, "delayed", b.drain(), "later2", "later1")
	b.enqueue("plain")
	b.rdb.Del(b.ctx, rediskey.Ready)
	equal(t, "woken", b.sweep(), 1)
	for range 3 {
		b.start()
		b.die()
	}
	b.claimNothing("it was given up")
	equal(t, "given up", b.outcome("plain").Status, session.StatusFailed)
	b.say("anew")
	h = b.claim()
	equal(t, "reset", h.Turn().Reset, "suspended")
	b.finish(h)
	_, err = b.client.Rotate(b.ctx, key, "")
	must(t, err)
	b.rdb.ZAdd(b.ctx, b.k.Completed(), redis.Z{Score: 1, Member: b.task("a")})
	n, err := b.c.Purge(b.ctx)
	must(t, err)
	equal(t, "purged", n, 1)
	_, err = b.c.Unregister(b.ctx)
	must(t, err)
	_, err = b.c.Forget(b.ctx)
	must(t, err)

	// Many sessions in one pipeline, on all masters of a cluster, and more waits for them
	// than there are connections for that.
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprint("s", i))
		_, err := b.client.Submit(b.ctx, keys[i], session.Message{ID: "m", Text: "x"})
		must(t, err)
	}
	holds, err := b.c.Claim(b.ctx, keys)
	must(t, err)
	equal(t, "holds", len(holds), 40)
	for _, r := range b.c.Renew(b.ctx, holds) {
		must(t, r.Err)
	}
	busy, err := b.client.BusySessions(b.ctx)
	must(t, err)
	equal(t, "busy", len(busy), 40)
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
