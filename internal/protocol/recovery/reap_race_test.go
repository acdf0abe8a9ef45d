package recovery_test

import (
	"context"
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

// gatedReap runs Reap as another worker does, and calls meanwhile while Reap waits at the gate.
func gatedReap(b *actors.Bench, gate func(*redistest.Faults) *redistest.Gate, meanwhile func()) {
	b.Helper()
	options, err := redis.ParseURL(redistest.URL(b.T))
	expect.OK(b, err)
	rdb := redis.NewClient(options)
	defer rdb.Close()
	faults := &redistest.Faults{}
	closed := gate(faults)
	rdb.AddHook(faults)
	b.Redis.Del(b.Ctx, rediskey.Timer("reap"))
	reaped := make(chan error, 1)
	go func() {
		_, _, err := actors.NewWorker(b.T, rdb, "gated").Reap(context.WithoutCancel(b.Ctx))
		reaped <- err
	}()
	<-closed.Arrived()
	meanwhile()
	closed.Release()
	expect.OK(b, <-reaped)
}

// afterTheLook stops Reap after its look at the sessions.
func afterTheLook(f *redistest.Faults) *redistest.Gate { return f.GateReply(actors.Script("look")) }

// afterTheKeys stops Reap when it has found a session without any key.
func afterTheKeys(f *redistest.Faults) *redistest.Gate { return f.GateReply(redistest.Named("exists")) }

// A session that is woken and popped while reap finds it idle stays in the owned index: the worker
// that popped it may have died.
func TestReapKeepsWhatIsWokenMeanwhile(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Redis.ZAdd(b.Ctx, rediskey.Owned, redis.Z{Score: 1, Member: actors.Key})
	gatedReap(b, afterTheKeys, func() {
		b.Say("a")
		expect.List(t, "popped, by a worker that dies", b.Pop(), actors.Key)
	})
	expect.Equal(t, "owned", b.IsIn(rediskey.Owned, actors.Key), true)
	b.Overdue(rediskey.Owned)
	expect.Equal(t, "recovered", b.Reap(), 1)
}

// lookedAtSoon checks that reap looks at the session as soon as a wake-up says.
func lookedAtSoon(b *actors.Bench) {
	b.Helper()
	score, err := b.Redis.ZScore(b.Ctx, rediskey.Owned, actors.Key).Result()
	expect.OK(b, err)
	now := b.Redis.Time(b.Ctx).Val().UnixMilli()
	if in := time.Duration(int64(score)-now) * time.Millisecond; in > 15*time.Second {
		b.Errorf("reap looks at it in %s", in)
	}
}

// A wake-up counts from its own time, whatever entry an owner of a long lease had left.
func TestWakeUpReplacesALateLook(t *testing.T) {
	t.Parallel()
	long := func(c *protocol.Config) { c.SentinelTTL = 10 * time.Minute }
	t.Run("a sender's", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, long)
		b.Say("a")
		b.Pop()
		h := b.Start()
		b.Overdue(rediskey.Owned)
		b.Reap() // which looks again at the end of the sentinel
		b.Finish(h)
		b.Say("b")
		expect.List(t, "popped, by a worker that dies", b.Pop(), actors.Key)
		lookedAtSoon(b)
	})
	t.Run("a release, while reap finds it owned", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, long)
		b.SayAll("a", "b")
		b.Pop()
		h := b.Start()
		b.Overdue(rediskey.Owned)
		gatedReap(b, afterTheLook, func() {
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
			expect.OK(t, err)
			expect.List(t, "popped, by a worker that dies", b.Pop(), actors.Key)
		})
		lookedAtSoon(b)
	})
	t.Run("sweep, of an owned one", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, func(c *protocol.Config) { c.SentinelTTL = 20 * time.Second })
		b.Say("a")
		b.Pop()
		b.Start()
		b.Redis.ZAdd(b.Ctx, rediskey.Owned, redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: actors.Key})
		b.Sweep()
		score := b.Redis.ZScore(b.Ctx, rediskey.Owned, actors.Key).Val()
		if score > float64(time.Now().Add(21*time.Second).UnixMilli()) {
			t.Errorf("reap looks at it at %.0f", score)
		}
	})
}
