package protocol_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// forever are the session's keys without a TTL.
func forever(b *actors.Bench) (names []string) {
	for _, name := range b.Redis.Keys(b.Ctx, b.Keys.Any()).Val() {
		if b.Redis.TTL(b.Ctx, name).Val() < 0 {
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
		"only /title": func(b *actors.Bench) { expect.OK(b, b.Client.SetTitle(b.Ctx, actors.Key, "a title")) },
		"only /queue": func(b *actors.Bench) {
			expect.OK(b, b.Client.Configure(b.Ctx, actors.Key, session.QueueSettings{Cap: 3}))
		},
		"only /new": func(b *actors.Bench) {
			_, err := b.Client.Rotate(b.Ctx, actors.Key, "")
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

// The button Delete in asynqmon takes a queue's name off the list, and leaves its
// results: they go when their time is over, like others.
func TestPurgeOfADeletedQueue(t *testing.T) {
	t.Parallel()
	for name, force := range map[string]bool{"empty": false, "forced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.SessionTTL = time.Hour })
			b.Say("a")
			b.Drain()
			expect.OK(t, b.Inspector().DeleteQueue(rediskey.Queue(actors.Key), force))
			expect.Equal(t, "state", b.State("a"), "completed")
			b.Redis.ZAdd(b.Ctx, b.Keys.Completed(), redis.Z{Score: 1, Member: b.Task("a")})
			n, err := b.Worker.Purge(b.Ctx)
			expect.OK(t, err)
			expect.Equal(t, "purged", n, 1)
			expect.Equal(t, "state", b.State("a"), "")
			b.MakeOld()
			n, err = b.Worker.Forget(b.Ctx)
			expect.OK(t, err)
			expect.Equal(t, "forgotten", n, 1)
			expect.List(t, "left", forever(b))
		})
	}
}

// What Purge asks of idle sessions that asynq does not list is little: one command for
// fifty.
func TestPurgeOfIdleSessionsIsCheap(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 5000
	members := make([]redis.Z, n)
	for i := range members {
		members[i] = redis.Z{Score: 1, Member: fmt.Sprint("s", i)}
	}
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Sessions, members...).Err())
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	_, err := b.Worker.Purge(b.Ctx)
	expect.OK(t, err)
	if asked := faults.CountCommands(); asked > 250 {
		t.Errorf("%d commands for %d idle sessions", asked, n)
	}
}
