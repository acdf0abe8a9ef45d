package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A Redis without persistence comes back empty: its data is lost, its waiters get an error, and
// the worker continues with new messages.
func TestRedisComesBackEmpty(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t, "--appendonly", "no", "--save", "")
	r := rigOn(t, server.URL(), server.Client())
	s := newStage()
	r.worker(s, sentinelTTL(expect.Lease(time.Second)))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.say("m2", "behind")
	server.Kill()
	server.Start()
	if err := a.cause(t); err == nil {
		t.Error("the turn goes on")
	}
	for _, id := range []string{"m1", "m2"} {
		ctx, cancel := context.WithTimeout(r.ctx, patience)
		if _, err := r.client.Session(r.key).Wait(ctx, id); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("waiting for %s: %v", id, err)
		}
		cancel()
	}
	r.say("m3", "on")
	b := s.next(t, "m3")
	if b.Fence <= a.Fence {
		t.Errorf("fence %d after %d", b.Fence, a.Fence)
	}
	b.reply("three")
	r.ends("m3", session.StatusDone)
}

// The server becomes a replica during a turn, as an old primary does after a failover: senders
// get an error, and the turn ends once it can be written again.
func TestRedisBecomesReadOnly(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	r := rigOn(t, server.URL(), server.Client())
	s := newStage()
	r.worker(s, sentinelTTL(time.Minute))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	expect.OK(t, r.rdb.SlaveOf(r.ctx, "127.0.0.1", "1").Err())
	if _, err := receipt.Input(r.ctx, r.client.Session(r.key), turnstile.Message{ID: "m2", Text: "no"}); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("a read-only Redis took a message: %v", err)
	}
	a.reply("one")
	expect.OK(t, r.rdb.SlaveOf(r.ctx, "NO", "ONE").Err())
	expect.Equal(t, "reply", r.ends("m1", session.StatusDone).Reply, "one")
	expect.Equal(t, "refused message", r.rdb.Exists(r.ctx, r.k.Task(rediskey.TaskID(r.key, "m2"))).Val(), 0)
}
