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
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) { actors.Main(m) }

// The moves need no more of Redis than docs/security.md gives workers and senders.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestDropsInBatches", "TestSteerOfALongLine", "TestUntakenSteersOfALongLine", "TestDismiss",
		"TestForeignTasks", "TestTooLongToBeRead", "TestTooLongElsewhere", "TestTranscriptIsBoundedInBytes",
		"TestStreamIsBoundedInBytes")
}

// The protocol's core runs on every kind of Redis that a URL can name.

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
	b := actors.BenchOn(t, rdb)

	// Send, claim, finish, next, release.
	for _, id := range []string{"a", "b", "c"} {
		expect.Equal(t, "status", b.Say(id).Status, receipt.Accepted)
	}
	backlog, err := b.Client.Backlog(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "sessions in ready", backlog.Ready, 1)
	expect.Equal(t, "sessions in owned", backlog.Owned, 1)
	expect.Equal(t, "sessions in due", backlog.Due, 0)
	expect.List(t, "popped", b.Pop(), actors.Key)
	h := b.Start()
	sid := h.Turn().TranscriptID
	expect.Equal(t, "queued", b.Say("d").Position, 4)
	expect.Equal(t, "duplicate", b.Say("d").Status, receipt.Duplicate)
	expect.Equal(t, "refused", b.Say("no", session.ModeReject).Status, receipt.Refused)
	expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Turn: h.Turn().ID, Text: "hi"}}))
	expect.OK(t, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err)
	got := b.WaitFor("d")
	fence := h.Turn().Fence
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	if h.Turn().Fence <= fence {
		t.Error("the fence fell")
	}

	// Retry, requeue, crash.
	expect.OK(t, h.Promote(b.Ctx))
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("flaky"), Wait: expect.Lease(time.Second)}))
	b.ClaimNothing("it has to wait")
	expect.Soon(t, "the backoff's end", func() bool { b.Due(); return b.IsIn(rediskey.Ready, actors.Key) })
	h = b.Start()
	expect.Equal(t, "attempt", h.Turn().Attempt, 2)
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
	h = b.Start()
	expect.Equal(t, "redelivered", h.Turn().Redelivered, 1)
	b.Die()
	b.Overdue(rediskey.Owned)
	b.Pop()
	expect.Equal(t, "recovered", b.Reap(), 1)
	expect.List(t, "popped", b.Pop(), actors.Key)
	h = b.Start()
	expect.Equal(t, "message", h.Turn().Message.ID, "b")
	expect.Equal(t, "resume", h.Turn().Resume, "crash")
	told := historyOf(b, h).Entries
	expect.Equal(t, "entries of the history", len(told), 2)
	expect.Equal(t, "of which the last", told[1].Text, "re: a")

	// Interrupt, stop.
	expect.Equal(t, "urgent", b.Say("urgent", session.ModeInterrupt).Position, 2)
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; !errors.Is(r.Requested, protocol.ErrInterruptRequested) {
		t.Errorf("requested: %v", r.Requested)
	}
	_, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusInterrupted})
	expect.OK(t, err)
	expect.Equal(t, "next", h.Turn().Message.ID, "urgent")
	for _, id := range []string{"urgent", "c", "d"} {
		expect.Equal(t, "runs", h.Turn().Message.ID, id)
		b.Finish(h)
	}
	expect.Equal(t, "d's end", (<-got).Reply, "re: d")
	expect.List(t, "transcript", b.Transcript(sid), "a", "re: a", "urgent", "re: urgent", "c", "re: c", "d", "re: d")
	b.NothingLeft("drained")
	b.SayAll("e", "f", "g")
	h = b.Start()
	s, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "dropped", s.Dropped, 2)
	_, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped})
	expect.OK(t, err)
	expect.Equal(t, "stopped", b.Outcome("g").Status, session.StatusStopped)
	b.NothingLeft("stopped")
	again, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "run again", again, 3)
	expect.List(t, "run again", b.Drain(), "e", "f", "g")
	b.Say("h")
	_, err = b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	gone, err := b.Client.Operate(actors.Key).DeleteDeadLetters(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "dropped for good", gone, 1)

	// Delayed messages, the sweep, three deaths.
	b.SayDelayed("later2")
	b.SayDelayed("later1")
	expect.List(t, "delayed", b.Drain(), "later2", "later1")
	b.Enqueue("plain")
	b.Redis.Del(b.Ctx, rediskey.Ready)
	expect.Equal(t, "woken", b.Sweep(), 1)
	for range 3 {
		b.Start()
		b.Die()
	}
	b.Doubt()
	b.ClaimNothing("it was archived")
	expect.Equal(t, "archived", b.Outcome("plain").Status, session.StatusFailed)
	b.Say("anew")
	h = b.Claim()
	expect.Equal(t, "reset", h.Turn().Reset, "suspended")
	b.Finish(h)
	_, err = b.Client.Session(actors.Key).NewTranscript(b.Ctx)
	expect.OK(t, err)
	b.Redis.ZAdd(b.Ctx, b.Keys.Completed(), redis.Z{Score: 1, Member: b.Task("a")})
	n, err := b.Worker.Purge(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "purged", n, 1)
	_, err = b.Worker.Unregister(b.Ctx)
	expect.OK(t, err)
	_, err = b.Worker.Forget(b.Ctx)
	expect.OK(t, err)

	// Many sessions share a pipeline, on all masters of a cluster, and more calls wait than there
	// are connections.
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprint("s", i))
		_, err := receipt.Input(b.Ctx, b.Client.Session(keys[i]), turnstile.Message{ID: "m", Text: "x"})
		expect.OK(t, err)
	}
	claims, err := b.Worker.Claim(b.Ctx, keys)
	expect.OK(t, err)
	expect.Equal(t, "claims", len(claims), 40)
	for _, r := range b.Worker.Renew(b.Ctx, claims) {
		expect.OK(t, r.Err)
	}
	busy, err := actors.Collect(b.Client.Sessions(b.Ctx, admin.Query{State: admin.StateBusy}))
	expect.OK(t, err)
	expect.Equal(t, "busy", len(busy), 40)
	var waits sync.WaitGroup
	for _, s := range keys {
		waits.Go(func() {
			if o, err := b.Client.Session(s).Wait(b.Ctx, "m"); err != nil || o.Reply != "re: x" {
				t.Errorf("the wait for %s: %+v, %v", s, o, err)
			}
		})
	}
	for _, h := range claims {
		b.Finish(h)
	}
	waits.Wait()
	b.NothingLeft("the end")
}
