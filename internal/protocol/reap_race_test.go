package protocol_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// gatedReap runs Reap as another worker does, which stands still where match says, and
// calls meanwhile until it goes on.
func (b *bench) gatedReap(gate func(*redistest.Faults) *redistest.Gate, meanwhile func()) {
	b.Helper()
	options, err := redis.ParseURL(redistest.URL(b.T))
	expect.OK(b, err)
	rdb := redis.NewClient(options)
	defer rdb.Close()
	faults := &redistest.Faults{}
	closed := gate(faults)
	rdb.AddHook(faults)
	b.rdb.Del(b.ctx, rediskey.Timer("reap"))
	reaped := make(chan error, 1)
	go func() {
		_, _, err := newWorker(b.T, rdb, "gated").Reap(context.WithoutCancel(b.ctx))
		reaped <- err
	}()
	<-closed.Arrived()
	meanwhile()
	closed.Release()
	expect.OK(b, <-reaped)
}

// afterTheLook has Reap stand still when it has looked at the sessions.
func afterTheLook(f *redistest.Faults) *redistest.Gate { return f.GateReply(called("look")) }

// afterTheKeys has Reap stand still when it has found a session without any key.
func afterTheKeys(f *redistest.Faults) *redistest.Gate { return f.GateReply(redistest.Named("exists")) }

// A session that is woken and popped while reap finds it idle stays in the owned index:
// whoever popped it may have died.
func TestReapKeepsWhatIsWokenMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.rdb.ZAdd(b.ctx, rediskey.Owned, redis.Z{Score: 1, Member: key})
	b.gatedReap(afterTheKeys, func() {
		b.say("a")
		expect.List(t, "popped, by a worker that dies", b.pop(), key)
	})
	expect.Equal(t, "owned", b.isIn(rediskey.Owned, key), true)
	b.overdue(rediskey.Owned)
	expect.Equal(t, "recovered", b.reap(), 1)
}

// lookedAtSoon checks that reap looks after the session as soon as a wake-up says.
func (b *bench) lookedAtSoon() {
	b.Helper()
	score, err := b.rdb.ZScore(b.ctx, rediskey.Owned, key).Result()
	expect.OK(b, err)
	now := b.rdb.Time(b.ctx).Val().UnixMilli()
	if in := time.Duration(int64(score)-now) * time.Millisecond; in > 15*time.Second {
		b.Errorf("reap looks after it in %s", in)
	}
}

// A wake-up counts from its own time, whatever the index had from an owner of a long
// lease.
func TestWakeUpReplacesALateLook(t *testing.T) {
	t.Parallel()
	long := func(c *sq.Config) { c.SentinelTTL = 10 * time.Minute }
	t.Run("a sender's", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, long)
		b.say("a")
		b.pop()
		h := b.start()
		b.overdue(rediskey.Owned)
		b.reap() // which looks again at the end of the sentinel
		b.finish(h)
		b.say("b")
		expect.List(t, "popped, by a worker that dies", b.pop(), key)
		b.lookedAtSoon()
	})
	t.Run("a release, while reap finds it held", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, long)
		b.sayAll("a", "b")
		b.pop()
		h := b.start()
		b.overdue(rediskey.Owned)
		b.gatedReap(afterTheLook, func() {
			_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Release: true})
			expect.OK(t, err)
			expect.List(t, "popped, by a worker that dies", b.pop(), key)
		})
		b.lookedAtSoon()
	})
	t.Run("sweep, of one that is held", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, func(c *sq.Config) { c.SentinelTTL = 20 * time.Second })
		b.say("a")
		b.pop()
		b.start()
		b.rdb.ZAdd(b.ctx, rediskey.Owned, redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: key})
		b.sweep()
		score := b.rdb.ZScore(b.ctx, rediskey.Owned, key).Val()
		if score > float64(time.Now().Add(21*time.Second).UnixMilli()) {
			t.Errorf("reap looks after it at %.0f", score)
		}
	})
}

// A session that due wakes, and that has to wait after all, is entered again by the
// claim: that entry stays.
func TestDueKeepsWhatAClaimEnters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.client.Submit(b.ctx, key, session.Message{ID: "a", Text: "a"}, turnstile.Delay(time.Hour))
	expect.OK(t, err)
	b.rdb.ZAdd(b.ctx, rediskey.Due, redis.Z{Score: float64(time.Now().UnixMilli()), Member: key}) // of a message that is gone
	b.rdb.AddHook(&afterPipeline{key: rediskey.Ready, do: func() {
		expect.List(t, "popped", b.pop(), key)
		b.claimNothing("it is delayed")
	}})
	b.due()
	expect.Equal(t, "due", b.isIn(rediskey.Due, key), true)
}
