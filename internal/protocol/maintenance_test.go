package protocol_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func TestPurge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ids []string
	for i := range 450 {
		ids = append(ids, fmt.Sprint("m", i))
	}
	_, err := b.rdb.Pipelined(b.ctx, func(p redis.Pipeliner) error {
		p.SAdd(b.ctx, rediskey.AllQueues, rediskey.Queue(key), "someone:else")
		for _, id := range ids {
			p.HSet(b.ctx, b.k.Task(b.task(id)), "msg", "x", "state", "completed")
			p.ZAdd(b.ctx, b.k.Completed(), redis.Z{Score: 1, Member: b.task(id)})
		}
		return nil
	})
	expect.OK(t, err)
	b.sayAll("kept", "failed", "old")
	h := b.start()
	b.finish(h)
	for range 2 {
		expect.OK(t, h.Promote(b.ctx))
		_, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed})
		expect.OK(t, err)
	}
	b.rdb.ZAdd(b.ctx, b.k.Archived(), redis.Z{Score: float64(time.Now().Add(-91 * 24 * time.Hour).Unix()), Member: b.task("old")})
	n, err := b.c.Purge(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "deleted", n, 451)
	expect.Equal(t, "kept", b.state("kept")+" "+b.state("failed")+" "+b.state("old"), "completed archived ")
	expect.Equal(t, "task hashes", len(b.rdb.Keys(b.ctx, b.k.TaskPrefix()+"*").Val()), 2)
	n, err = b.c.Purge(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "deleted again", n, 0)
}

func TestForget(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.Retention = 0; c.SessionTTL = time.Hour })
	b.say("a")
	b.drain()
	b.rdb.Del(b.ctx, rediskey.Ready, rediskey.Owned, rediskey.AllQueues)
	forget := func() int {
		t.Helper()
		n, err := b.c.Forget(b.ctx)
		expect.OK(t, err)
		return n
	}
	expect.Equal(t, "while it is young", forget(), 0)
	b.overdue(rediskey.Sessions)
	expect.Equal(t, "used lately, whatever the index says", forget(), 0)
	if score := b.rdb.ZScore(b.ctx, rediskey.Sessions, key).Val(); score < 2 {
		t.Errorf("looked at again at %v", score)
	}
	old := time.Now().Add(-2 * time.Hour).UnixMilli()
	b.rdb.HSet(b.ctx, b.k.Record(), "updated_at", old)
	b.rdb.HSet(b.ctx, b.k.Run(), "ended_at", old)
	b.overdue(rediskey.Sessions)
	b.enqueue("b")
	expect.Equal(t, "while it holds a message", forget(), 0)
	expect.OK(t, b.inspector().DeleteTask(rediskey.Queue(key), b.task("b")))
	b.overdue(rediskey.Sessions)
	expect.Equal(t, "old and empty", forget(), 1)
	b.rdb.Del(b.ctx, rediskey.AllQueues)
	left := b.rdb.Keys(b.ctx, "turnstile:*").Val()
	expect.List(t, "what is left", left)

	last := time.Now().UnixMilli()
	b.say("c")
	if f := b.claim().Turn().Fence; f < last {
		t.Errorf("the fence fell to %d", f)
	}
}

// More than one batch, and some of the first that are broken or still of use.
func TestForgetMany(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 2300
	members := make([]redis.Z, n)
	_, err := b.rdb.Pipelined(b.ctx, func(p redis.Pipeliner) error {
		for i := range n {
			s := fmt.Sprintf("s%04d", i)
			members[i] = redis.Z{Score: 1, Member: s}
			switch {
			case i < 3:
				p.Set(b.ctx, rediskey.For(s).Record(), "spoilt", 0)
			case i < 9:
				p.LPush(b.ctx, rediskey.For(s).Pending(), "x")
			}
		}
		p.ZAdd(b.ctx, rediskey.Sessions, members...)
		return nil
	})
	expect.OK(t, err)
	gone, err := b.c.Forget(b.ctx)
	if err == nil || strings.Count(err.Error(), "WRONGTYPE") != 3 {
		t.Errorf("of the broken ones it says %v", err)
	}
	expect.Equal(t, "forgotten", gone, n-9)
	expect.Equal(t, "left", b.rdb.ZCard(b.ctx, rediskey.Sessions).Val(), 9)
}
