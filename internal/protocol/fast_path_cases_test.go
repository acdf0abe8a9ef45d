package protocol_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// variants runs f with and without the fast paths.
func variants(t *testing.T, f func(t *testing.T, b *actors.Bench), changes ...actors.Setup) {
	t.Helper()
	t.Parallel()
	for name, hook := range map[string]redis.Hook{"fast path": &fastCalls{}, "full path": &whole{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, changes...)
			b.Redis.AddHook(hook)
			f(t, b)
		})
	}
}

// After a failover to a Redis with an earlier clock, the fencing token is ahead of the clock. It is
// not a time: messages do not age by it.
func TestFenceAheadOfTheClock(t *testing.T) {
	variants(t, func(t *testing.T, b *actors.Bench) {
		b.SayAll("a", "b")
		ahead := time.Now().Add(time.Hour)
		b.Redis.HSet(b.Ctx, b.Keys.Run(), "fence", ahead.UnixMilli())
		h := b.Start()
		if !b.Finish(h) {
			t.Fatal("no next turn")
		}
		turn := h.Turn()
		expect.Equal(t, "fence", turn.Fence, ahead.UnixMilli()+2)
		expect.Equal(t, "fence of the record", b.Redis.HGet(b.Ctx, b.Keys.Run(), "fence").Val(), fmt.Sprint(turn.Fence))
		lease := time.Unix(int64(b.Redis.ZScore(b.Ctx, b.Keys.Lease(), b.Task("b")).Val()), 0)
		if turn.Age > time.Minute || time.Until(turn.StartedAt) > time.Minute || time.Until(lease) > 2*time.Minute {
			t.Errorf("age %v, started %v, lease until %v", turn.Age, turn.StartedAt, lease)
		}
	})
}

// A task runs although fields of it are unreadable.
func TestDamagedSeen(t *testing.T) {
	variants(t, func(t *testing.T, b *actors.Bench) {
		b.SayAll("a", "b")
		for _, id := range []string{"a", "b"} {
			b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task(id)), "seen", "x", "redelivered", "y")
		}
		expect.List(t, "runs", b.Drain(), "a", "b")
		noHalves(b)
	})
}

// A session is forgotten SESSION_TTL after its last turn's end, not its beginning.
func TestForgetAfterALongTurn(t *testing.T) {
	variants(t, func(t *testing.T, b *actors.Bench) {
		b.Say("a")
		h := b.Start()
		b.Redis.HSet(b.Ctx, b.Keys.Record(), "updated_at", 1, "created_at", 1)
		b.Redis.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: 1, Member: actors.Key})
		b.Finish(h)
		expect.OK(t, b.Inspector().DeleteTask(rediskey.Queue(actors.Key), b.Task("a"))) // its result would keep the session
		n, err := b.Worker.Forget(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "forgotten", n, 0)
		b.Redis.HSet(b.Ctx, b.Keys.Run(), "ended_at", 1)
		b.Redis.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: 1, Member: actors.Key})
		n, err = b.Worker.Forget(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "forgotten an hour after its end", n, 1)
	}, func(c *protocol.Config) { c.SessionTTL = time.Hour })
}

// The turn after an interrupted one gets the note of dropped messages too.
func TestDroppedAfterAnInterrupt(t *testing.T) {
	variants(t, func(t *testing.T, b *actors.Bench) {
		b.Redis.HSet(b.Ctx, b.Keys.Record(), "queue", `{"cap":1,"drop":"summarize"}`)
		b.Say("a")
		h := b.Start()
		b.SayAll("b", "c")
		b.Finish(h)
		expect.List(t, "dropped before c", h.Turn().Dropped, b.Task("b"))
		expect.OK(t, h.Promote(b.Ctx))
		b.Enqueue("d")
		more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusInterrupted, Entries: []session.Entry{{Role: session.RoleUser, Text: "c"}}})
		expect.OK(t, err)
		expect.Equal(t, "next", fmt.Sprint(more, " ", h.Turn().Message.ID), "true d")
		expect.List(t, "dropped before d", h.Turn().Dropped, b.Task("b"))
	})
}

// When the session is released, the due index has the time of a task that a stock asynq.Server will
// retry.
func TestReleaseBeforeAServersRetry(t *testing.T) {
	variants(t, func(t *testing.T, b *actors.Bench) {
		b.Say("a")
		b.Enqueue("again")
		h := b.Start()
		b.Redis.LRem(b.Ctx, b.Keys.Pending(), 1, b.Task("again"))
		b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("again")), "state", "retry")
		b.Redis.ZAdd(b.Ctx, b.Keys.Retry(), redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: b.Task("again")})
		b.Finish(h)
		expect.Equal(t, "in the due index", b.IsIn(rediskey.Due, actors.Key), true)
	})
}

// variantsOf returns a move's script and its fast path, if it has one.
func variantsOf(name string) []*redis.Script {
	if plain, ok := protocol.Scripts[name+"_fast"]; ok {
		return []*redis.Script{protocol.Scripts[name], plain}
	}
	if protocol.Scripts[name] == nil {
		panic("no script " + name)
	}
	return []*redis.Script{protocol.Scripts[name]}
}
