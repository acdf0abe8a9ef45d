package maintenance_test

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
	"turnstile/test/redistest"
)

// asynqmon's button Delete takes a queue off the list and leaves its results. They are purged when
// they expire, like others.
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

// Purge sends one command for fifty idle sessions that asynq does not list.
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

// The events of an idle session go RETENTION after the last one. A reader that has seen the last one misses nothing.
func TestPurgeOfEvents(t *testing.T) {
	t.Parallel()
	drained := func(b *actors.Bench) { b.Drain() }
	for name, c := range map[string]struct {
		retention, age time.Duration
		make           func(b *actors.Bench)
		gone           bool
	}{
		"old":             {time.Hour, 61 * time.Minute, drained, true},
		"young":           {time.Hour, 59 * time.Minute, drained, false},
		"without results": {0, 6 * time.Minute, drained, true},
		"just after":      {0, 4 * time.Minute, drained, false},
		"of a turn": {0, time.Hour, func(b *actors.Bench) {
			expect.OK(b, b.Start().Emit(b.Ctx, []session.Event{{Type: session.EventThought}}))
		}, false},
		"of a parked turn": {0, time.Hour, func(b *actors.Bench) {
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Wait: time.Hour}))
		}, false},
		"with a message": {0, time.Hour, func(b *actors.Bench) {
			b.Drain()
			b.Say("b")
		}, false},
		"of a dead letter": {0, time.Hour, func(b *actors.Bench) {
			_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed})
			expect.OK(b, err)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(config *protocol.Config) { config.Retention = c.retention })
			b.Say("a")
			c.make(b)
			last := b.AgeEvents(c.age)
			_, err := b.Worker.Purge(b.Ctx)
			expect.OK(t, err)
			expect.Equal(t, "events are gone", b.Redis.Exists(b.Ctx, b.Keys.Events()).Val() == 0, c.gone)
			want := ""
			if c.gone {
				want = last + " 2 1000"
			}
			expect.Equal(t, "gone", b.Redis.HGet(b.Ctx, b.Keys.Run(), "gone").Val(), want)
		})
	}
}
