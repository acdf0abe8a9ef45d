package protocol_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A stock asynq.Server can take over the messages that wait. A turn that has begun stays, for a worker.
func TestContract_StockServerDrains(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("drained", "b")
	expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
	b.SayDelayed("later")

	ran := make(chan string, 10)
	stop := b.StockServer(func(_ context.Context, task *asynq.Task) error {
		m, err := wire.Decode(task.Payload(), session.Limits{})
		ran <- m.Text
		return err
	})
	for _, want := range []string{"b", "later"} {
		expect.Equal(t, "the server runs", <-ran, want)
	}
	expect.Soon(t, "the queue to be drained", func() bool { return b.State("later") == "" })
	stop()
	b.Say("again")
	expect.List(t, "the consumer takes over again", b.Drain(), "drained", "again")
}

// While a stock asynq.Server works on a message, the session cannot be claimed.
func TestContract_StockServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a")
	working, goOn := make(chan struct{}), make(chan struct{})
	stop := b.StockServer(func(context.Context, *asynq.Task) error {
		close(working)
		<-goOn
		return nil
	})
	<-working
	b.Enqueue("b")
	expect.OK(t, b.Inspector().PauseQueue(actors.Queue)) // keeps the server from b
	b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Due)
	b.Redis.Rename(b.Ctx, b.Keys.Paused(), "elsewhere")
	b.ClaimNothing("a stock server works on a")
	expect.Equal(t, "looked at again", b.IsIn(rediskey.Due, actors.Key), true)
	expect.Equal(t, "a", b.State("a"), "active")
	b.Overdue(rediskey.Owned)
	b.Reap()
	expect.Equal(t, "reap wakes it", b.IsIn(rediskey.Ready, actors.Key), false)
	b.Redis.Rename(b.Ctx, "elsewhere", b.Keys.Paused())
	close(goOn)
	expect.Soon(t, "the server's end", func() bool { return b.State("a") == "" })
	stop()
	expect.OK(t, b.Inspector().UnpauseQueue(actors.Queue))
	expect.List(t, "runs", b.Drain(), "b")
}

// The message of a stock server that died comes back when its lease is over.
func TestContract_StockServerDied(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	b.Redis.RPopLPush(b.Ctx, b.Keys.Pending(), b.Keys.Active())
	b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("a")), "state", "active")
	b.Redis.HDel(b.Ctx, b.Keys.Task(b.Task("a")), "pending_since") // as asynq's dequeue does
	at := time.Now().Add(2 * time.Second).Unix()
	b.Redis.Do(b.Ctx, "ZADD", b.Keys.Lease(), at, b.Task("a"))
	b.ClaimNothing("its lease lives")
	b.Redis.Do(b.Ctx, "ZADD", b.Keys.Lease(), at-10, b.Task("a"))
	h := b.Start()
	expect.Equal(t, "message", h.Turn().Message.ID, "a")
	expect.Equal(t, "resume", h.Turn().Resume, "")
	b.Finish(h)
	expect.Equal(t, "then", h.Turn().Message.ID, "b")
	b.Finish(h)
	noHalves(b)
}

// Every end of a message releases its unique lock, and only its own.
func TestContract_UniqueLocks(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *actors.Bench){
		"done": func(b *actors.Bench) { b.Drain() },
		"failed": func(b *actors.Bench) {
			_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed})
			expect.OK(b, err)
		},
		"stopped": func(b *actors.Bench) {
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
		},
		"archived as stuck": func(b *actors.Bench) {
			for range 3 {
				b.Start()
				b.Die()
			}
			b.Doubt()
			b.ClaimNothing("it was archived")
		},
		"stopped, then dead": func(b *actors.Bench) {
			b.Start()
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
			b.Die()
			b.ClaimNothing("it was stopped")
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.EnqueueTask(wire.TaskType, `{"v":1,"text":"x"}`, "x", asynq.Unique(time.Hour))
			lock := b.Redis.HGet(b.Ctx, b.Keys.Task("x"), "unique_key").Val()
			expect.Equal(t, "holds its lock", b.Redis.Get(b.Ctx, lock).Val(), "x")
			end(b)
			expect.Equal(t, "locks", b.Redis.Exists(b.Ctx, lock).Val(), 0)
		})
		t.Run(name+", another's lock", func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.EnqueueTask(wire.TaskType, `{"v":1,"text":"x"}`, "x", asynq.Unique(time.Hour))
			lock := b.Redis.HGet(b.Ctx, b.Keys.Task("x"), "unique_key").Val()
			b.Redis.Set(b.Ctx, lock, "another", time.Hour)
			end(b)
			expect.Equal(t, "lock", b.Redis.Get(b.Ctx, lock).Val(), "another")
		})
	}
	b := actors.NewBench(t)
	b.EnqueueTask(wire.TaskType, `{"v":1,"text":"x"}`, "x", asynq.Unique(time.Hour))
	lock := b.Redis.HGet(b.Ctx, b.Keys.Task("x"), "unique_key").Val()
	expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New("x")}))
	expect.Equal(t, "lock after a retry", b.Redis.Get(b.Ctx, lock).Val(), "x")
	b.Start()
	b.Die()
	b.Start()
	expect.Equal(t, "lock after a crash", b.Redis.Get(b.Ctx, lock).Val(), "x")
}
