package protocol_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// old makes the session one that nobody has used for long.
func (b *bench) old() {
	long := time.Now().Add(-2 * time.Hour).UnixMilli()
	for name, field := range map[string]string{b.k.Record(): "updated_at", b.k.Run(): "ended_at"} {
		if b.rdb.Exists(b.ctx, name).Val() == 1 {
			b.rdb.HSet(b.ctx, name, field, long)
		}
	}
	b.overdue(rediskey.Sessions)
}

// forever are the session's keys without a TTL.
func (b *bench) forever() (names []string) {
	for _, name := range b.rdb.Keys(b.ctx, b.k.Any()).Val() {
		if b.rdb.TTL(b.ctx, name).Val() < 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A session that was forgotten leaves no key behind that does not expire, whatever it
// had seen.
func TestForgetLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, live := range map[string]func(b *bench){
		"turns": func(b *bench) {
			b.sayAll("a", "b")
			b.drain()
		},
		"a failure": func(b *bench) {
			b.say("a")
			_, err := b.start().Finish(b.ctx, sq.End{Status: session.StatusFailed})
			expect.OK(b, err)
			expect.OK(b, b.inspector().DeleteTask(rediskey.Queue(key), b.task("a")))
		},
		"only /title": func(b *bench) { expect.OK(b, b.client.SetTitle(b.ctx, key, "a title")) },
		"only /queue": func(b *bench) { expect.OK(b, b.client.Configure(b.ctx, key, session.QueueSettings{Cap: 3})) },
		"only /new": func(b *bench) {
			_, err := b.client.Rotate(b.ctx, key, "")
			expect.OK(b, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *sq.Config) { c.Retention, c.SessionTTL = 0, time.Hour })
			live(b)
			if len(b.forever()) == 0 {
				t.Fatal("it has left nothing from the start")
			}
			b.old()
			n, err := b.c.Forget(b.ctx)
			expect.OK(t, err)
			expect.Equal(t, "forgotten", n, 1)
			expect.List(t, "left", b.forever())
		})
	}
}

// The button Delete in asynqmon takes a queue's name off the list, and leaves its
// results: they go when their time is over, like others.
func TestPurgeOfADeletedQueue(t *testing.T) {
	t.Parallel()
	for name, force := range map[string]bool{"empty": false, "forced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *sq.Config) { c.SessionTTL = time.Hour })
			b.say("a")
			b.drain()
			expect.OK(t, b.inspector().DeleteQueue(rediskey.Queue(key), force))
			expect.Equal(t, "state", b.state("a"), "completed")
			b.rdb.ZAdd(b.ctx, b.k.Completed(), redis.Z{Score: 1, Member: b.task("a")})
			n, err := b.c.Purge(b.ctx)
			expect.OK(t, err)
			expect.Equal(t, "purged", n, 1)
			expect.Equal(t, "state", b.state("a"), "")
			b.old()
			n, err = b.c.Forget(b.ctx)
			expect.OK(t, err)
			expect.Equal(t, "forgotten", n, 1)
			expect.List(t, "left", b.forever())
		})
	}
}

// What Purge asks of idle sessions that asynq does not list is little: one command for
// fifty.
func TestPurgeOfIdleSessionsIsCheap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 5000
	members := make([]redis.Z, n)
	for i := range members {
		members[i] = redis.Z{Score: 1, Member: fmt.Sprint("s", i)}
	}
	expect.OK(t, b.rdb.ZAdd(b.ctx, rediskey.Sessions, members...).Err())
	faults := &redistest.Faults{}
	b.rdb.AddHook(faults)
	_, err := b.c.Purge(b.ctx)
	expect.OK(t, err)
	if asked := faults.CountCommands(); asked > 250 {
		t.Errorf("%d commands for %d idle sessions", asked, n)
	}
}
