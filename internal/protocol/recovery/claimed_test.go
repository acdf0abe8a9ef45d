package recovery_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// looksIn returns in how long reap will look at the session.
func looksIn(b *actors.Bench) time.Duration {
	b.Helper()
	score, err := b.Redis.ZScore(b.Ctx, rediskey.Owned, actors.Key).Result()
	expect.OK(b, err)
	return time.Duration(int64(score)-b.Redis.Time(b.Ctx).Val().UnixMilli()) * time.Millisecond
}

func shortLease(c *protocol.Config) { c.SentinelTTL = 2 * time.Second }

// A worker dies right after its claim. It is found within its sentinel's time, whatever time the
// session's sender had given reap.
func TestCrashBehindTheClaimIsFoundInTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claims redistest.Match
		wait   func(b *actors.Bench)
	}{
		"fast path": {actors.FastPath, func(b *actors.Bench) { b.Say("a") }},
		"full path": {actors.FullPath("claim"), func(b *actors.Bench) { b.Say("b"); b.Start(); b.Die(); b.Say("a") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, shortLease)
			for _, known := range script.All() {
				expect.OK(t, b.Redis.ScriptLoad(b.Ctx, known.Source).Err())
			}
			c.wait(b)
			rdb, faults := b.BareRedis(), &redistest.Faults{}
			rdb.AddHook(faults)
			dead := faults.GateReply(c.claims) // no reply reaches the worker
			over := make(chan struct{})
			go func() {
				defer close(over)
				_, _ = actors.NewWorker(t, rdb, "dies", shortLease).Claim(context.WithoutCancel(b.Ctx), []string{actors.Key})
			}()
			<-dead.Arrived()
			expect.Equal(t, "claimed", b.Redis.Exists(b.Ctx, b.Keys.Sentinel()).Val(), 1)
			if in := looksIn(b); in > 2*time.Second {
				t.Errorf("reap looks at it in %s", in)
			}
			dead.Release()
			<-over
		})
	}
}

// The index has a claimed session no later than its sentinel may end, whatever its entry was. An
// entry that reap may just have read is written again.
func TestRenewalsRepairTheIndex(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ahead     time.Duration // of Redis' clock; 0: there is no entry
		least, in time.Duration
	}{
		"lost":          {0, time.Second, 2 * time.Second},
		"late":          {time.Hour, time.Second, 2 * time.Second},
		"a wake-up's":   {15 * time.Second, time.Second, 2 * time.Second},
		"its time came": {-time.Minute, time.Second, 2 * time.Second},
		"soon":          {500 * time.Millisecond, -time.Hour, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, shortLease)
			b.Say("a")
			h := b.Start()
			b.Redis.Del(b.Ctx, rediskey.Owned)
			if c.ahead != 0 {
				at := b.Redis.Time(b.Ctx).Val().Add(c.ahead)
				b.Redis.ZAdd(b.Ctx, rediskey.Owned, redis.Z{Score: float64(at.UnixMilli()), Member: actors.Key})
			}
			expect.OK(t, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err)
			if in := looksIn(b); in > c.in || in < c.least {
				t.Errorf("reap looks at it in %s", in)
			}
		})
	}
}

// On a Cluster the index is on another node than the session: nothing is claimed before the entry
// is made.
func TestNothingIsClaimedWithoutAnEntryOnACluster(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	whole := redistest.StartCluster(t).Client()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: whole.Options().Addrs})
	t.Cleanup(func() { rdb.Close() })
	faults, refused := &redistest.Faults{}, errors.New("the node of the owned index is away")
	rdb.OnNewNode(func(node *redis.Client) { node.AddHook(faults) })
	b, broken := actors.BenchOn(t, whole, shortLease), actors.BenchOn(t, rdb, shortLease)
	b.Say("a")
	b.Pop()
	faults.FailBefore(actors.Script("index_owned"), 1, refused)
	claims, err := broken.Worker.Claim(broken.Ctx, []string{actors.Key})
	if !errors.Is(err, refused) || len(claims) > 0 {
		t.Fatalf("%d claims, error: %v", len(claims), err)
	}
	expect.Equal(t, "claimed", b.Redis.Exists(b.Ctx, b.Keys.Sentinel()).Val(), 0)
	expect.List(t, "put back", b.Pop(), actors.Key)
	claims, err = broken.Worker.Claim(broken.Ctx, []string{actors.Key})
	expect.OK(t, err)
	expect.Equal(t, "claimed then", len(claims), 1)
	if in := looksIn(b); in > 2*time.Second {
		t.Errorf("reap looks at it in %s", in)
	}
}
