package maintenance_test

import (
	"errors"
	"testing"
	"time"

	"turnstile"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A session is on asynqmon's list while it has messages or dead letters, and not for its results
// alone.
func TestListedWithSomethingToLookAt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(b *actors.Bench)
		want bool
	}{
		"waiting":        {func(b *actors.Bench) { b.Say("a") }, true},
		"running":        {func(b *actors.Bench) { b.Say("a"); b.Start() }, true},
		"its owner died": {func(b *actors.Bench) { b.Say("a"); b.Start(); b.Die() }, true},
		"retried": {func(b *actors.Bench) {
			b.Say("a")
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Failed: actors.ErrFlaky, Wait: time.Hour}))
		}, true},
		"delayed":       {func(b *actors.Bench) { b.SayDelayed("a") }, true},
		"a dead letter": {func(b *actors.Bench) { b.Say("a"); fail(b) }, true},
		"stopped": {func(b *actors.Bench) {
			b.Say("a")
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
		}, true},
		"paused":        {func(b *actors.Bench) { b.Say("a"); b.Drain(); expect.OK(b, b.Inspector().PauseQueue(actors.Queue)) }, true},
		"results alone": {func(b *actors.Bench) { b.SayAll("a", "b"); b.Drain() }, false},
		"a dead letter that was deleted": {func(b *actors.Bench) {
			b.Say("a")
			fail(b)
			expect.OK(b, b.Inspector().DeleteTask(actors.Queue, b.Task("a")))
		}, false},
		"nothing": {func(b *actors.Bench) { expect.OK(b, b.Redis.SAdd(b.Ctx, rediskey.AllQueues, actors.Queue).Err()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			expect.OK(t, b.Redis.SAdd(b.Ctx, rediskey.AllQueues, "someone:else").Err())
			c.do(b)
			expect.Equal(t, "listed before", b.Listed(actors.Key), true)
			taken := 1
			if c.want {
				taken = 0
			}
			expect.Equal(t, "names taken off", unregister(b), taken)
			expect.Equal(t, "listed", b.Listed(actors.Key), c.want)
			expect.Equal(t, "a queue of another program is listed", b.Redis.SIsMember(b.Ctx, rediskey.AllQueues, "someone:else").Val(), true)
			expect.Equal(t, "taken off again", unregister(b), 0)
		})
	}
}

// Each move that brings an unlisted session a message or a dead letter lists it again.
func TestListedAgain(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(b *actors.Bench){
		"Send":          func(b *actors.Bench) { b.Say("b") },
		"Send, delayed": func(b *actors.Bench) { b.SayDelayed("b") },
		"retry of the last message": func(b *actors.Bench) {
			_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{Text: "/retry"})
			expect.OK(b, err)
		},
		"a plain producer's message, found by the sweep": func(b *actors.Bench) {
			plain(b, "b")
			expect.Equal(b, "woken", b.Sweep(), 1)
		},
		"a plain producer's message, found by reap": func(b *actors.Bench) {
			plain(b, "b")
			expect.OK(b, b.Redis.ZAdd(b.Ctx, rediskey.Owned, redis.Z{Score: 1, Member: actors.Key}).Err())
			expect.Equal(b, "recovered", b.Reap(), 1)
		},
		"a plain producer's message that has failed, found by the search": func(b *actors.Bench) {
			plain(b, "b")
			fail(b)
			expect.Equal(b, "entered", b.Find(), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			b.Drain()
			b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Owned) // a worker pops it, and reap finds nothing
			unregister(b)
			expect.Equal(t, "listed when idle", b.Listed(actors.Key), false)
			do(b)
			expect.Equal(t, "listed", b.Listed(actors.Key), true)
			expect.Equal(t, "names taken off", unregister(b), 0)
		})
	}
}

// The jobs that walk all sessions find one that is not on asynqmon's list.
func TestUnlistedIsFound(t *testing.T) {
	t.Parallel()
	unlisted := func(t *testing.T, changes ...actors.Setup) *actors.Bench {
		b := actors.NewBench(t, changes...)
		b.SayAll("a", "b")
		h := b.Start()
		b.Finish(h)
		b.Finish(h)
		unregister(b)
		expect.Equal(t, "listed", b.Listed(actors.Key), false)
		return b
	}
	t.Run("its results are purged", func(t *testing.T) {
		t.Parallel()
		b := unlisted(t)
		b.Redis.ZAdd(b.Ctx, b.Keys.Completed(), redis.Z{Score: 1, Member: b.Task("a")})
		n, err := b.Worker.Purge(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "purged", n, 1)
		expect.Equal(t, "kept", b.State("b"), "completed")
	})
	t.Run("it is forgotten", func(t *testing.T) {
		t.Parallel()
		b := unlisted(t, func(c *protocol.Config) { c.Retention = 0; c.SessionTTL = time.Hour })
		b.MakeOld()
		n, err := b.Worker.Forget(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "forgotten", n, 1)
	})
	t.Run("it is erased", func(t *testing.T) {
		t.Parallel()
		b := unlisted(t)
		expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
		expect.Equal(t, "its name is kept", b.IsIn(unlistedIndex, actors.Key), false)
		expect.Equal(t, "keys", len(b.Redis.Keys(b.Ctx, "*{"+actors.Queue+"}*").Val()), 0)
		expect.Equal(t, "listed", b.Listed(actors.Key), false)
	})
	t.Run("its results can be read", func(t *testing.T) {
		t.Parallel()
		expect.Equal(t, "reply", unlisted(t).Outcome("a").Reply, "re: a")
	})
	t.Run("its dead letters are listed", func(t *testing.T) {
		t.Parallel()
		b := unlisted(t)
		plain(b, "c")
		fail(b)
		found, err := actors.Collect(b.Client.Sessions(b.Ctx, admin.Query{State: admin.StateDeadLetters}))
		expect.OK(t, err)
		if len(found) != 1 || found[0].Session != actors.Key {
			t.Errorf("with dead letters: %v", found)
		}
	})
	t.Run("it is among the busy ones", func(t *testing.T) {
		t.Parallel()
		b := unlisted(t)
		b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Owned)
		plain(b, "c")
		b.Sweep()
		expect.OK(t, b.Redis.SRem(b.Ctx, rediskey.AllQueues, actors.Queue).Err())
		busy, err := actors.Collect(b.Client.Sessions(b.Ctx, admin.Query{State: admin.StateBusy}))
		expect.OK(t, err)
		if len(busy) != 1 || busy[0].Session != actors.Key {
			t.Errorf("busy: %v", busy)
		}
	})
}

// asynqmon reads nothing of an unlisted queue. With the next message it shows everything again.
func TestContract_UnlistedQueue(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	unregister(b)
	i := b.Inspector()
	if info, err := i.GetQueueInfo(actors.Queue); err == nil {
		t.Errorf("the page of the queue: %+v", info)
	}
	if _, err := i.ListCompletedTasks(actors.Queue); !errors.Is(err, asynq.ErrQueueNotFound) {
		t.Errorf("the list of results: %v", err)
	}
	if _, err := i.GetTaskInfo(actors.Queue, b.Task("a")); !errors.Is(err, asynq.ErrQueueNotFound) {
		t.Errorf("a result: %v", err)
	}
	expect.OK(t, i.PauseQueue(actors.Queue))
	expect.OK(t, i.UnpauseQueue(actors.Queue))
	b.Say("b")
	info, err := i.GetQueueInfo(actors.Queue)
	expect.OK(t, err)
	expect.Equal(t, "results", info.Completed, 1)
	tasks, err := i.ListCompletedTasks(actors.Queue)
	expect.OK(t, err)
	if len(tasks) != 1 || tasks[0].ID != b.Task("a") {
		t.Errorf("results: %v", tasks)
	}
}
