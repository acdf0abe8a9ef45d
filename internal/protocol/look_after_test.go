package protocol_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// looksIn is in what time reap looks at the session.
func (b *bench) looksIn() time.Duration {
	b.Helper()
	score, err := b.rdb.ZScore(b.ctx, rediskey.Owned, key).Result()
	expect.OK(b, err)
	return time.Duration(int64(score)-b.rdb.Time(b.ctx).Val().UnixMilli()) * time.Millisecond
}

func shortLease(c *sq.Config) { c.SentinelTTL = 2 * time.Second }

// A worker that dies right behind its claim is found in its sentinel's time, however
// long its session's sender would have had reap wait.
func TestCrashBehindTheClaimIsFoundInTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claims redistest.Match
		wait   func(b *bench)
	}{
		"plain":   {fastPath, func(b *bench) { b.say("a") }},
		"special": {fullPath("claim"), func(b *bench) { b.say("b"); b.start(); b.die(); b.say("a") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, shortLease)
			for _, known := range script.All() {
				expect.OK(t, b.rdb.ScriptLoad(b.ctx, known.Source).Err())
			}
			c.wait(b)
			rdb, faults := b.bare(), &redistest.Faults{}
			rdb.AddHook(faults)
			dead := faults.GateReply(c.claims) // it hears no answer any more
			over := make(chan struct{})
			go func() {
				defer close(over)
				_, _ = newWorker(t, rdb, "dies", shortLease).Claim(context.WithoutCancel(b.ctx), []string{key})
			}()
			<-dead.Arrived()
			expect.Equal(t, "claimed", b.rdb.Exists(b.ctx, b.k.Sentinel()).Val(), 1)
			if in := b.looksIn(); in > 2*time.Second {
				t.Errorf("reap looks after it in %s", in)
			}
			dead.Release()
			<-over
		})
	}
}

// What is claimed and held is looked after no later than its sentinel may end, whatever
// its entry was; and one that reap may just have read gets another.
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
			b := newBench(t, shortLease)
			b.say("a")
			h := b.start()
			b.rdb.Del(b.ctx, rediskey.Owned)
			if c.ahead != 0 {
				at := b.rdb.Time(b.ctx).Val().Add(c.ahead)
				b.rdb.ZAdd(b.ctx, rediskey.Owned, redis.Z{Score: float64(at.UnixMilli()), Member: key})
			}
			expect.OK(t, b.c.Renew(b.ctx, []*sq.Claim{h})[0].Err)
			if in := b.looksIn(); in > c.in || in < c.least {
				t.Errorf("reap looks after it in %s", in)
			}
		})
	}
}

// On a Cluster the index is on another node than the session: nothing is claimed there
// before the entry is made.
func TestNothingIsClaimedWithoutAnEntryOnACluster(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	whole := redistest.StartCluster(t).Client()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: whole.Options().Addrs})
	t.Cleanup(func() { rdb.Close() })
	faults, refused := &redistest.Faults{}, errors.New("the node of the owned index is away")
	rdb.OnNewNode(func(node *redis.Client) { node.AddHook(faults) })
	b, broken := benchOn(t, whole, shortLease), benchOn(t, rdb, shortLease)
	b.say("a")
	b.pop()
	faults.FailBefore(called("look_after"), 1, refused)
	holds, err := broken.c.Claim(broken.ctx, []string{key})
	if !errors.Is(err, refused) || len(holds) > 0 {
		t.Fatalf("%d holds, error: %v", len(holds), err)
	}
	expect.Equal(t, "claimed", b.rdb.Exists(b.ctx, b.k.Sentinel()).Val(), 0)
	expect.List(t, "put back", b.pop(), key)
	holds, err = broken.c.Claim(broken.ctx, []string{key})
	expect.OK(t, err)
	expect.Equal(t, "claimed then", len(holds), 1)
	if in := b.looksIn(); in > 2*time.Second {
		t.Errorf("reap looks after it in %s", in)
	}
}
