package protocol_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func TestPurge(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	var ids []string
	for i := range 450 {
		ids = append(ids, fmt.Sprint("m", i))
	}
	_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
		p.SAdd(b.Ctx, rediskey.AllQueues, rediskey.Queue(actors.Key), "someone:else")
		for _, id := range ids {
			p.HSet(b.Ctx, b.Keys.Task(b.Task(id)), "msg", "x", "state", "completed")
			p.ZAdd(b.Ctx, b.Keys.Completed(), redis.Z{Score: 1, Member: b.Task(id)})
		}
		return nil
	})
	expect.OK(t, err)
	b.SayAll("kept", "failed", "old")
	h := b.Start()
	b.Finish(h)
	for range 2 {
		expect.OK(t, h.Promote(b.Ctx))
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed})
		expect.OK(t, err)
	}
	b.Redis.ZAdd(b.Ctx, b.Keys.Archived(), redis.Z{Score: float64(time.Now().Add(-91 * 24 * time.Hour).Unix()), Member: b.Task("old")})
	n, err := b.Worker.Purge(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "deleted", n, 451)
	expect.Equal(t, "kept", b.State("kept")+" "+b.State("failed")+" "+b.State("old"), "completed archived ")
	expect.Equal(t, "task hashes", len(b.Redis.Keys(b.Ctx, b.Keys.TaskPrefix()+"*").Val()), 2)
	n, err = b.Worker.Purge(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "deleted again", n, 0)
}

func TestForget(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Retention = 0; c.SessionTTL = time.Hour })
	b.Say("a")
	b.Drain()
	b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Owned, rediskey.AllQueues)
	forget := func() int {
		t.Helper()
		n, err := b.Worker.Forget(b.Ctx)
		expect.OK(t, err)
		return n
	}
	expect.Equal(t, "while it is young", forget(), 0)
	b.Overdue(rediskey.Sessions)
	expect.Equal(t, "used lately, whatever the index says", forget(), 0)
	if score := b.Redis.ZScore(b.Ctx, rediskey.Sessions, actors.Key).Val(); score < 2 {
		t.Errorf("looked at again at %v", score)
	}
	old := time.Now().Add(-2 * time.Hour).UnixMilli()
	b.Redis.HSet(b.Ctx, b.Keys.Record(), "updated_at", old)
	b.Redis.HSet(b.Ctx, b.Keys.Run(), "ended_at", old)
	b.Overdue(rediskey.Sessions)
	b.Enqueue("b")
	expect.Equal(t, "while it holds a message", forget(), 0)
	expect.OK(t, b.Inspector().DeleteTask(rediskey.Queue(actors.Key), b.Task("b")))
	b.Overdue(rediskey.Sessions)
	expect.Equal(t, "old and empty", forget(), 1)
	b.Redis.Del(b.Ctx, rediskey.AllQueues)
	left := b.Redis.Keys(b.Ctx, "turnstile:*").Val()
	expect.List(t, "what is left", left)

	last := time.Now().UnixMilli()
	b.Say("c")
	if f := b.Claim().Turn().Fence; f < last {
		t.Errorf("the fence fell to %d", f)
	}
}

// More than one batch, and some of the first that are broken or still of use.
func TestForgetMany(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 2300
	members := make([]redis.Z, n)
	_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
		for i := range n {
			s := fmt.Sprintf("s%04d", i)
			members[i] = redis.Z{Score: 1, Member: s}
			switch {
			case i < 3:
				p.Set(b.Ctx, rediskey.For(s).Record(), "spoilt", 0)
			case i < 9:
				p.LPush(b.Ctx, rediskey.For(s).Pending(), "x")
			}
		}
		p.ZAdd(b.Ctx, rediskey.Sessions, members...)
		return nil
	})
	expect.OK(t, err)
	gone, err := b.Worker.Forget(b.Ctx)
	if err == nil || strings.Count(err.Error(), "WRONGTYPE") != 3 {
		t.Errorf("of the broken ones it says %v", err)
	}
	expect.Equal(t, "forgotten", gone, n-9)
	expect.Equal(t, "left", b.Redis.ZCard(b.Ctx, rediskey.Sessions).Val(), 9)
}
