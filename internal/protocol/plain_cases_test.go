package protocol_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// variants runs f with and without the plain variants.
func variants(t *testing.T, f func(t *testing.T, b *bench), changes ...setup) {
	t.Helper()
	t.Parallel()
	for name, hook := range map[string]redis.Hook{"plain": &answers{}, "whole": &whole{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, changes...)
			b.rdb.AddHook(hook)
			f(t, b)
		})
	}
}

// A fence that is ahead of the clock, as after a failover to a Redis whose clock is
// behind, is no time: messages do not grow old by it.
func TestFenceAheadOfTheClock(t *testing.T) {
	variants(t, func(t *testing.T, b *bench) {
		b.sayAll("a", "b")
		ahead := time.Now().Add(time.Hour)
		b.rdb.HSet(b.ctx, b.k.Run(), "fence", ahead.UnixMilli())
		h := b.start()
		if !b.finish(h) {
			t.Fatal("no next turn")
		}
		turn := h.Turn()
		expect.Equal(t, "fence", turn.Fence, ahead.UnixMilli()+2)
		expect.Equal(t, "fence of the record", b.rdb.HGet(b.ctx, b.k.Run(), "fence").Val(), fmt.Sprint(turn.Fence))
		lease := time.Unix(int64(b.rdb.ZScore(b.ctx, b.k.Lease(), b.task("b")).Val()), 0)
		if turn.Age > time.Minute || time.Until(turn.StartedAt) > time.Minute || time.Until(lease) > 2*time.Minute {
			t.Errorf("age %v, started %v, lease until %v", turn.Age, turn.StartedAt, lease)
		}
	})
}

// A task whose own fields cannot be read is run all the same.
func TestDamagedSeen(t *testing.T) {
	variants(t, func(t *testing.T, b *bench) {
		b.sayAll("a", "b")
		for _, id := range []string{"a", "b"} {
			b.rdb.HSet(b.ctx, b.k.Task(b.task(id)), "seen", "x", "redelivered", "y")
		}
		expect.List(t, "runs", b.drain(), "a", "b")
		noHalves(b)
	})
}

// A session is forgotten SESSION_TTL after its last turn's end, not its beginning.
func TestForgetAfterALongHold(t *testing.T) {
	variants(t, func(t *testing.T, b *bench) {
		b.say("a")
		h := b.start()
		b.rdb.HSet(b.ctx, b.k.Record(), "updated_at", 1, "created_at", 1)
		b.rdb.ZAdd(b.ctx, rediskey.Sessions, redis.Z{Score: 1, Member: key})
		b.finish(h)
		expect.OK(t, b.inspector().DeleteTask(rediskey.Queue(key), b.task("a"))) // its result would keep the session
		n, err := b.c.Forget(b.ctx)
		expect.OK(t, err)
		expect.Equal(t, "forgotten", n, 0)
		b.rdb.HSet(b.ctx, b.k.Run(), "ended_at", 1)
		b.rdb.ZAdd(b.ctx, rediskey.Sessions, redis.Z{Score: 1, Member: key})
		n, err = b.c.Forget(b.ctx)
		expect.OK(t, err)
		expect.Equal(t, "forgotten an hour after its end", n, 1)
	}, func(c *sq.Config) { c.SessionTTL = time.Hour })
}

// What was dropped is told to the turn after an interrupted one, too.
func TestDroppedAfterAnInterrupt(t *testing.T) {
	variants(t, func(t *testing.T, b *bench) {
		b.rdb.HSet(b.ctx, b.k.Record(), "queue", `{"cap":1,"drop":"summarize"}`)
		b.say("a")
		h := b.start()
		b.sayAll("b", "c")
		b.finish(h)
		expect.List(t, "dropped before c", h.Turn().Dropped, b.task("b"))
		expect.OK(t, h.Promote(b.ctx))
		b.enqueue("d")
		more, err := h.Finish(b.ctx, sq.End{Status: session.StatusInterrupted, Entries: []session.Entry{{Role: session.RoleUser, Text: "c"}}})
		expect.OK(t, err)
		expect.Equal(t, "next", fmt.Sprint(more, " ", h.Turn().Message.ID), "true d")
		expect.List(t, "dropped before d", h.Turn().Dropped, b.task("b"))
	})
}

// A task that a stock asynq.Server is to try again has its time in the due index when
// the session is released.
func TestReleaseBeforeAServersRetry(t *testing.T) {
	variants(t, func(t *testing.T, b *bench) {
		b.say("a")
		b.enqueue("again")
		h := b.start()
		b.rdb.LRem(b.ctx, b.k.Pending(), 1, b.task("again"))
		b.rdb.HSet(b.ctx, b.k.Task(b.task("again")), "state", "retry")
		b.rdb.ZAdd(b.ctx, b.k.Retry(), redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: b.task("again")})
		b.finish(h)
		expect.Equal(t, "in the due index", b.isIn(rediskey.Due, key), true)
	})
}
