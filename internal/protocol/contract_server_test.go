package protocol_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A stock asynq.Server can take over what the consumer leaves.
func TestContract_StockServerDrains(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("done", "retried", "drained", "b")
	h := b.start()
	b.finish(h)
	expect.OK(t, h.Promote(b.ctx))
	expect.OK(t, h.Retry(b.ctx, errors.New("flaky"), 0))
	h = b.start()
	expect.OK(t, h.Requeue(b.ctx, "drain"))
	b.delayed("later")

	ran := make(chan string, 10)
	stop := b.server(func(ctx context.Context, task *asynq.Task) error {
		m, err := session.DecodePayload(task.Payload())
		if n, _ := asynq.GetRetryCount(ctx); m.Text == "retried" && n != 1 {
			t.Errorf("asynq counts %d retries", n)
		}
		ran <- m.Text
		return err
	})
	for _, want := range []string{"retried", "drained", "b", "later"} {
		expect.Equal(t, "the server runs", <-ran, want)
	}
	expect.Soon(t, "the queue to be drained", func() bool { return b.rdb.Exists(b.ctx, b.k.Pending(), b.k.Active()).Val() == 0 })
	stop()
	b.claimNothing("all was run")
	b.say("again")
	expect.List(t, "the consumer takes over again", b.drain(), "again")
}

// While a stock asynq.Server works on a message, nobody claims the session.
func TestContract_StockServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a")
	working, goOn := make(chan struct{}), make(chan struct{})
	stop := b.server(func(context.Context, *asynq.Task) error {
		close(working)
		<-goOn
		return nil
	})
	<-working
	b.enqueue("b")
	expect.OK(t, b.inspector().PauseQueue(queue)) // keeps the server from b
	b.rdb.Del(b.ctx, rediskey.Ready, rediskey.Due)
	b.rdb.Rename(b.ctx, b.k.Paused(), "elsewhere")
	b.claimNothing("a stock server works on a")
	expect.Equal(t, "looked at again", b.isIn(rediskey.Due, key), true)
	expect.Equal(t, "a", b.state("a"), "active")
	b.overdue(rediskey.Owned)
	b.reap()
	expect.Equal(t, "reap wakes it", b.isIn(rediskey.Ready, key), false)
	b.rdb.Rename(b.ctx, "elsewhere", b.k.Paused())
	close(goOn)
	expect.Soon(t, "the server's end", func() bool { return b.state("a") == "" })
	stop()
	expect.OK(t, b.inspector().UnpauseQueue(queue))
	expect.List(t, "runs", b.drain(), "b")
}

// A stock server that died: its message comes back when its lease is over.
func TestContract_StockServerDied(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	b.rdb.RPopLPush(b.ctx, b.k.Pending(), b.k.Active())
	b.rdb.HSet(b.ctx, b.k.Task(b.task("a")), "state", "active")
	b.rdb.HDel(b.ctx, b.k.Task(b.task("a")), "pending_since") // as asynq's dequeue does
	at := time.Now().Add(2 * time.Second).Unix()
	b.rdb.Do(b.ctx, "ZADD", b.k.Lease(), at, b.task("a"))
	b.claimNothing("its lease lives")
	b.rdb.Do(b.ctx, "ZADD", b.k.Lease(), at-10, b.task("a"))
	h := b.start()
	expect.Equal(t, "message", h.Turn().Message.ID, "a")
	expect.Equal(t, "resume", h.Turn().Resume, "")
	b.finish(h)
	expect.Equal(t, "then", h.Turn().Message.ID, "b")
	b.finish(h)
	noHalves(b)
}

// Unique locks are released by every end, and only the message's own.
func TestContract_UniqueLocks(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *bench){
		"done": func(b *bench) { b.drain() },
		"failed": func(b *bench) {
			_, err := b.start().Finish(b.ctx, sq.End{Status: session.StatusFailed})
			expect.OK(b, err)
		},
		"stopped": func(b *bench) {
			_, err := b.client.Stop(b.ctx, key)
			expect.OK(b, err)
		},
		"given up": func(b *bench) {
			for range 3 {
				b.start()
				b.die()
			}
			b.claimNothing("it was given up")
		},
		"stopped, then dead": func(b *bench) {
			b.start()
			_, err := b.client.Stop(b.ctx, key)
			expect.OK(b, err)
			b.die()
			b.claimNothing("it was stopped")
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.enqueueRaw(session.TaskType, `{"v":1,"text":"x"}`, "x", asynq.Unique(time.Hour))
			lock := b.rdb.HGet(b.ctx, b.k.Task("x"), "unique_key").Val()
			expect.Equal(t, "holds its lock", b.rdb.Get(b.ctx, lock).Val(), "x")
			end(b)
			expect.Equal(t, "locks", b.rdb.Exists(b.ctx, lock).Val(), 0)
		})
		t.Run(name+", another's lock", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.enqueueRaw(session.TaskType, `{"v":1,"text":"x"}`, "x", asynq.Unique(time.Hour))
			lock := b.rdb.HGet(b.ctx, b.k.Task("x"), "unique_key").Val()
			b.rdb.Set(b.ctx, lock, "another", time.Hour)
			end(b)
			expect.Equal(t, "lock", b.rdb.Get(b.ctx, lock).Val(), "another")
		})
	}
	b := newBench(t)
	b.enqueueRaw(session.TaskType, `{"v":1,"text":"x"}`, "x", asynq.Unique(time.Hour))
	lock := b.rdb.HGet(b.ctx, b.k.Task("x"), "unique_key").Val()
	expect.OK(t, b.start().Retry(b.ctx, errors.New("x"), 0))
	expect.Equal(t, "lock after a retry", b.rdb.Get(b.ctx, lock).Val(), "x")
	b.start()
	b.die()
	b.start()
	expect.Equal(t, "lock after a crash", b.rdb.Get(b.ctx, lock).Val(), "x")
}
