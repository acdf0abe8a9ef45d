package protocol_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// listed reports whether asynqmon lists a session.
func (b *bench) listed(session string) bool {
	b.Helper()
	listed, err := b.rdb.SIsMember(b.ctx, rediskey.AllQueues, rediskey.Queue(session)).Result()
	expect.OK(b, err)
	return listed
}

// unregister is one pass of the job; it answers how many names it took off.
func (b *bench) unregister() int {
	b.Helper()
	n, err := b.c.Unregister(b.ctx)
	expect.OK(b, err)
	return n
}

// plain puts a message in as any asynq.Client may, which has told the queue's name
// once and tells it no more.
func (b *bench) plain(id string) {
	b.Helper()
	listed := b.listed(key)
	b.enqueue(id)
	if !listed {
		expect.OK(b, b.rdb.SRem(b.ctx, rediskey.AllQueues, rediskey.Queue(key)).Err())
	}
}

// fail runs the session's next message, which fails for good.
func (b *bench) fail() {
	b.Helper()
	_, err := b.start().Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "exit status 7", Release: true})
	expect.OK(b, err)
}

// A session is on asynqmon's list as long as there is something to look at, and not
// for its results alone.
func TestListedWithSomethingToLookAt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(b *bench)
		want bool
	}{
		"waiting":        {func(b *bench) { b.say("a") }, true},
		"running":        {func(b *bench) { b.say("a"); b.start() }, true},
		"its owner died": {func(b *bench) { b.say("a"); b.start(); b.die() }, true},
		"retried":        {func(b *bench) { b.say("a"); expect.OK(b, b.start().Retry(b.ctx, errFlaky, time.Hour)) }, true},
		"delayed":        {func(b *bench) { b.delayed("a") }, true},
		"a dead letter":  {func(b *bench) { b.say("a"); b.fail() }, true},
		"stopped": {func(b *bench) {
			b.say("a")
			_, err := b.client.Stop(b.ctx, key)
			expect.OK(b, err)
		}, true},
		"paused":        {func(b *bench) { b.say("a"); b.drain(); expect.OK(b, b.inspector().PauseQueue(queue)) }, true},
		"results alone": {func(b *bench) { b.sayAll("a", "b"); b.drain() }, false},
		"a dead letter that was deleted": {func(b *bench) {
			b.say("a")
			b.fail()
			expect.OK(b, b.inspector().DeleteTask(queue, b.task("a")))
		}, false},
		"nothing": {func(b *bench) { expect.OK(b, b.rdb.SAdd(b.ctx, rediskey.AllQueues, queue).Err()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			expect.OK(t, b.rdb.SAdd(b.ctx, rediskey.AllQueues, "someone:else").Err())
			c.do(b)
			expect.Equal(t, "listed before", b.listed(key), true)
			taken := 1
			if c.want {
				taken = 0
			}
			expect.Equal(t, "names taken off", b.unregister(), taken)
			expect.Equal(t, "listed", b.listed(key), c.want)
			expect.Equal(t, "a queue of another program is listed", b.rdb.SIsMember(b.ctx, rediskey.AllQueues, "someone:else").Val(), true)
			expect.Equal(t, "taken off again", b.unregister(), 0)
		})
	}
}

// Whoever brings a session that is not listed something to look at has it listed.
func TestListedAgain(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(b *bench){
		"Submit":          func(b *bench) { b.say("b") },
		"Submit, delayed": func(b *bench) { b.delayed("b") },
		"retry of the last message": func(b *bench) {
			_, err := b.client.Submit(b.ctx, key, session.Message{Text: "/retry"})
			expect.OK(b, err)
		},
		"a plain message, found by the sweep": func(b *bench) {
			b.plain("b")
			expect.Equal(b, "woken", b.sweep(), 1)
		},
		"a plain message, found by reap": func(b *bench) {
			b.plain("b")
			expect.OK(b, b.rdb.ZAdd(b.ctx, rediskey.Owned, redis.Z{Score: 1, Member: key}).Err())
			expect.Equal(b, "recovered", b.reap(), 1)
		},
		"a plain message that has failed, found by the search": func(b *bench) {
			b.plain("b")
			b.fail()
			expect.Equal(b, "entered", b.find(), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			b.drain()
			b.rdb.Del(b.ctx, rediskey.Ready, rediskey.Owned) // a worker pops it, and reap finds nothing
			b.unregister()
			expect.Equal(t, "listed when idle", b.listed(key), false)
			do(b)
			expect.Equal(t, "listed", b.listed(key), true)
			expect.Equal(t, "names taken off", b.unregister(), 0)
		})
	}
}

// Those who look after all sessions find one that is not on asynqmon's list.
func TestUnlistedIsFound(t *testing.T) {
	t.Parallel()
	unlisted := func(t *testing.T, changes ...setup) *bench {
		b := newBench(t, changes...)
		b.sayAll("a", "b")
		h := b.start()
		b.finish(h)
		b.finish(h)
		b.unregister()
		expect.Equal(t, "listed", b.listed(key), false)
		return b
	}
	t.Run("its results are purged", func(t *testing.T) {
		t.Parallel()
		b := unlisted(t)
		b.rdb.ZAdd(b.ctx, b.k.Completed(), redis.Z{Score: 1, Member: b.task("a")})
		n, err := b.c.Purge(b.ctx)
		expect.OK(t, err)
		expect.Equal(t, "purged", n, 1)
		expect.Equal(t, "kept", b.state("b"), "completed")
	})
	t.Run("it is forgotten", func(t *testing.T) {
		t.Parallel()
		b := unlisted(t, func(c *sq.Config) { c.Retention = 0; c.SessionTTL = time.Hour })
		b.old()
		n, err := b.c.Forget(b.ctx)
		expect.OK(t, err)
		expect.Equal(t, "forgotten", n, 1)
	})
	t.Run("it is erased", func(t *testing.T) {
		t.Parallel()
		b := unlisted(t)
		expect.OK(t, b.client.Erase(b.ctx, key))
		expect.Equal(t, "its name is kept", b.isIn(unlistedIndex, key), false)
		expect.Equal(t, "keys", len(b.rdb.Keys(b.ctx, "*{"+queue+"}*").Val()), 0)
		expect.Equal(t, "listed", b.listed(key), false)
	})
	t.Run("its results can be read", func(t *testing.T) {
		t.Parallel()
		expect.Equal(t, "reply", unlisted(t).outcome("a").Reply, "re: a")
	})
	t.Run("its dead letters are listed", func(t *testing.T) {
		t.Parallel()
		b := unlisted(t)
		b.plain("c")
		b.fail()
		var found []string
		for s, err := range b.client.SessionsWithDeadLetters(b.ctx) {
			expect.OK(t, err)
			found = append(found, s)
		}
		expect.List(t, "with dead letters", found, key)
	})
	t.Run("it is among the busy ones", func(t *testing.T) {
		t.Parallel()
		b := unlisted(t)
		b.rdb.Del(b.ctx, rediskey.Ready, rediskey.Owned)
		b.plain("c")
		b.sweep()
		expect.OK(t, b.rdb.SRem(b.ctx, rediskey.AllQueues, queue).Err())
		busy, err := b.client.BusySessions(b.ctx)
		expect.OK(t, err)
		if len(busy) != 1 || busy[0].Session != key {
			t.Errorf("busy: %v", busy)
		}
	})
}

// A message that comes between the removal and the second look is not hidden from
// asynqmon.
func TestUnregisterRace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.rdb.SAdd(b.ctx, rediskey.AllQueues, queue)
	gate, gated := b.gatedAt("srem")
	names := make(chan int, 1)
	go func() {
		n, err := gated.Unregister(context.WithoutCancel(b.ctx))
		if err != nil {
			t.Error(err)
		}
		names <- n
	}()
	<-gate.Arrived()
	b.plain("a")
	gate.Release()
	expect.Equal(t, "names", <-names, 0)
	expect.Equal(t, "listed", b.listed(key), true)
}

// gatedAt is a worker that is held up behind each command by a name.
func (b *bench) gatedAt(name string) (*redistest.Gate, *actors.Consumer) {
	b.Helper()
	options, err := redis.ParseURL(redistest.URL(b.T))
	expect.OK(b, err)
	rdb := redis.NewClient(options)
	b.Cleanup(func() { rdb.Close() })
	faults := &redistest.Faults{}
	gate := faults.GateReply(redistest.Named(name))
	rdb.AddHook(faults)
	return gate, newWorker(b.T, rdb, "gated")
}

// The same where the worker dies in that instant, or where the sender, who has told
// the name before, is slower than the second look: a later pass lists what there is,
// also a dead letter, which no sweep looks for.
func TestUnregisterLooksAgain(t *testing.T) {
	t.Parallel()
	t.Run("the worker dies", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.say("a")
		b.drain()
		gate, gated := b.gatedAt("srem")
		ctx, die := context.WithCancel(b.ctx)
		dead := make(chan error, 1)
		go func() {
			_, err := gated.Unregister(ctx)
			dead <- err
		}()
		<-gate.Arrived()
		die()
		expect.OK(t, <-dead) // to be cut short is no failure: a drain does so
		expect.Equal(t, "listed", b.listed(key), false)
		b.plain("b")
		b.fail()
		b.overdue(unlistedIndex)
		b.unregister()
		expect.Equal(t, "listed", b.listed(key), true)
		expect.Equal(t, "names to be looked at", b.rdb.ZCard(b.ctx, unlistedIndex).Val(), 0)
	})
	t.Run("the sender is slow", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		expect.OK(t, b.rdb.SAdd(b.ctx, rediskey.AllQueues, queue).Err())
		expect.Equal(t, "names", b.unregister(), 1)
		b.plain("a")
		b.fail()
		expect.Equal(t, "at once", b.listed(key), false)
		b.unregister()
		expect.Equal(t, "before its time", b.listed(key), false)
		b.overdue(unlistedIndex)
		b.unregister()
		expect.Equal(t, "listed", b.listed(key), true)
	})
}

// unlistedIndex is where names stand that were taken off, until they were looked at
// once more.
const unlistedIndex = "turnstile:unlisted"

// One worker at a time makes the pass; one that dies leaves it to the next soon.
func TestUnregisterOnePassAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	expect.OK(t, b.rdb.SAdd(b.ctx, rediskey.AllQueues, queue).Err())
	gate, gated := b.gatedAt("srem")
	ended := make(chan error, 1)
	go func() {
		_, err := gated.Unregister(context.WithoutCancel(b.ctx))
		ended <- err
	}()
	<-gate.Arrived()
	expect.OK(t, b.rdb.SAdd(b.ctx, rediskey.AllQueues, rediskey.Queue("idle")).Err())
	expect.Equal(t, "names, beside another's pass", b.unregister(), 0)
	if left := b.rdb.PTTL(b.ctx, rediskey.Timer("unregister")).Val(); left <= 0 || left > 5*time.Second {
		t.Errorf("should that one die, the next pass may begin in %s", left)
	}
	gate.Release()
	expect.OK(t, <-ended)
	if b.unregister() == 0 && b.listed("idle") {
		t.Error("no pass can begin behind the end of one")
	}
}

// asynqmon reads nothing of a queue that is not listed; with the next message it is
// all there again.
func TestContract_UnlistedQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.drain()
	b.unregister()
	i := b.inspector()
	if info, err := i.GetQueueInfo(queue); err == nil {
		t.Errorf("the page of the queue: %+v", info)
	}
	if _, err := i.ListCompletedTasks(queue); !errors.Is(err, asynq.ErrQueueNotFound) {
		t.Errorf("the list of results: %v", err)
	}
	if _, err := i.GetTaskInfo(queue, b.task("a")); !errors.Is(err, asynq.ErrQueueNotFound) {
		t.Errorf("a result: %v", err)
	}
	expect.OK(t, i.PauseQueue(queue))
	expect.OK(t, i.UnpauseQueue(queue))
	b.say("b")
	info, err := i.GetQueueInfo(queue)
	expect.OK(t, err)
	expect.Equal(t, "results", info.Completed, 1)
	tasks, err := i.ListCompletedTasks(queue)
	expect.OK(t, err)
	if len(tasks) != 1 || tasks[0].ID != b.task("a") {
		t.Errorf("results: %v", tasks)
	}
}
