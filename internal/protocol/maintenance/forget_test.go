package maintenance_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// forever returns the session's keys without a TTL.
func forever(b *actors.Bench) (names []string) {
	for _, name := range b.Redis.Keys(b.Ctx, b.Keys.Any()).Val() {
		if b.Redis.TTL(b.Ctx, name).Val() < 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Every key that a forgotten session leaves expires, whatever the session had.
func TestForgetLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, live := range map[string]func(b *actors.Bench){
		"turns": func(b *actors.Bench) {
			b.SayAll("a", "b")
			b.Drain()
		},
		"a failure": func(b *actors.Bench) {
			b.Say("a")
			_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed})
			expect.OK(b, err)
			expect.OK(b, b.Inspector().DeleteTask(rediskey.Queue(actors.Key), b.Task("a")))
		},
		"only /title": func(b *actors.Bench) { expect.OK(b, b.Client.Session(actors.Key).SetTitle(b.Ctx, "a title")) },
		"only /queue": func(b *actors.Bench) {
			expect.OK(b, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Cap: 3}))
		},
		"only /new": func(b *actors.Bench) {
			_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
			expect.OK(b, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.Retention, c.SessionTTL = 0, time.Hour })
			live(b)
			if len(forever(b)) == 0 {
				t.Fatal("it has left nothing from the start")
			}
			b.MakeOld()
			n, err := b.Worker.Forget(b.Ctx)
			expect.OK(t, err)
			expect.Equal(t, "forgotten", n, 1)
			expect.List(t, "left", forever(b))
		})
	}
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
	expect.List(t, "what is left", left, b.Keys.Idem("a"))
	expect.List(t, "what stays", forever(b))

	last := time.Now().UnixMilli()
	b.Say("c")
	if f := b.Claim().Turn().Fence; f < last {
		t.Errorf("the fence fell to %d", f)
	}
}

// More than one batch; some of the first sessions are broken or in use.
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
