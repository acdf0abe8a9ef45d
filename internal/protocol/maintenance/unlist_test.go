package maintenance_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// unregister makes one pass of the job and returns how many names it removed.
func unregister(b *actors.Bench) int {
	b.Helper()
	n, err := b.Worker.Unregister(b.Ctx)
	expect.OK(b, err)
	return n
}

// plain enqueues a message as any asynq.Client may: it names the queue once and not again.
func plain(b *actors.Bench, id string) {
	b.Helper()
	listed := b.Listed(actors.Key)
	b.Enqueue(id)
	if !listed {
		expect.OK(b, b.Redis.SRem(b.Ctx, rediskey.AllQueues, rediskey.Queue(actors.Key)).Err())
	}
}

// fail runs the session's next message, which fails for good.
func fail(b *actors.Bench) {
	b.Helper()
	_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "exit status 7", Release: true})
	expect.OK(b, err)
}

// A message that comes between the removal and the second look stays visible in asynqmon.
func TestUnregisterRace(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Redis.SAdd(b.Ctx, rediskey.AllQueues, actors.Queue)
	gate, gated := gatedAt(b, "srem")
	names := make(chan int, 1)
	go func() {
		n, err := gated.Unregister(context.WithoutCancel(b.Ctx))
		if err != nil {
			t.Error(err)
		}
		names <- n
	}()
	<-gate.Arrived()
	plain(b, "a")
	gate.Release()
	expect.Equal(t, "names", <-names, 0)
	expect.Equal(t, "listed", b.Listed(actors.Key), true)
}

// gatedAt returns a worker that waits after each command of that name until the gate opens.
func gatedAt(b *actors.Bench, name string) (*redistest.Gate, *actors.Consumer) {
	b.Helper()
	options, err := redis.ParseURL(redistest.URL(b.T))
	expect.OK(b, err)
	rdb := redis.NewClient(options)
	b.Cleanup(func() { rdb.Close() })
	faults := &redistest.Faults{}
	gate := faults.GateReply(redistest.Named(name))
	rdb.AddHook(faults)
	return gate, actors.NewWorker(b.T, rdb, "gated")
}

// The worker dies in that moment, or the sender, which has listed the name before, is slower than
// the second look. A later pass lists the session again, also for a dead letter, which no sweep
// searches for.
func TestUnregisterLooksAgain(t *testing.T) {
	t.Parallel()
	t.Run("the worker dies", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		b.Drain()
		gate, gated := gatedAt(b, "srem")
		ctx, die := context.WithCancel(b.Ctx)
		dead := make(chan error, 1)
		go func() {
			_, err := gated.Unregister(ctx)
			dead <- err
		}()
		<-gate.Arrived()
		die()
		expect.OK(t, <-dead) // an interruption is no failure: a drain does so
		expect.Equal(t, "listed", b.Listed(actors.Key), false)
		plain(b, "b")
		fail(b)
		b.Overdue(unlistedIndex)
		unregister(b)
		expect.Equal(t, "listed", b.Listed(actors.Key), true)
		expect.Equal(t, "names to be looked at", b.Redis.ZCard(b.Ctx, unlistedIndex).Val(), 0)
	})
	t.Run("the sender is slow", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		expect.OK(t, b.Redis.SAdd(b.Ctx, rediskey.AllQueues, actors.Queue).Err())
		expect.Equal(t, "names", unregister(b), 1)
		plain(b, "a")
		fail(b)
		expect.Equal(t, "at once", b.Listed(actors.Key), false)
		unregister(b)
		expect.Equal(t, "before its time", b.Listed(actors.Key), false)
		b.Overdue(unlistedIndex)
		unregister(b)
		expect.Equal(t, "listed", b.Listed(actors.Key), true)
	})
}

// unlistedIndex has the names that were removed, until the second look.
const unlistedIndex = "turnstile:unlisted"

// One worker at a time makes the pass. If it dies, another one soon takes over.
func TestUnregisterOnePassAtATime(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Redis.SAdd(b.Ctx, rediskey.AllQueues, actors.Queue).Err())
	gate, gated := gatedAt(b, "srem")
	ended := make(chan error, 1)
	go func() {
		_, err := gated.Unregister(context.WithoutCancel(b.Ctx))
		ended <- err
	}()
	<-gate.Arrived()
	expect.OK(t, b.Redis.SAdd(b.Ctx, rediskey.AllQueues, rediskey.Queue("idle")).Err())
	expect.Equal(t, "names, beside another's pass", unregister(b), 0)
	if left := b.Redis.PTTL(b.Ctx, rediskey.Timer("unregister")).Val(); left <= 0 || left > 5*time.Second {
		t.Errorf("should that one die, the next pass may begin in %s", left)
	}
	gate.Release()
	expect.OK(t, <-ended)
	if unregister(b) == 0 && b.Listed("idle") {
		t.Error("no pass can begin behind the end of one")
	}
}

// No command has more than a batch of names, however many are removed.
func TestUnregisterInBatches(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 10_000
	names := make([]any, n)
	for i := range names {
		names[i] = rediskey.Queue(fmt.Sprint("s", i))
	}
	expect.OK(t, b.Redis.SAdd(b.Ctx, rediskey.AllQueues, names...).Err())
	srem := &longest{name: "srem"}
	b.Redis.AddHook(srem)
	gone, err := b.Worker.Unregister(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "names", gone, n)
	expect.Equal(t, "left", b.Redis.SCard(b.Ctx, rediskey.AllQueues).Val(), 0)
	if srem.args > 1100 {
		t.Errorf("an SREM with %d arguments", srem.args)
	}
}
