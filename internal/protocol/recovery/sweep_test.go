package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/recovery"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The messages of an unfinished stop are found although the run record is gone.
func TestUnfinishedStopWithoutARecord(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i := range 600 {
		b.Enqueue(fmt.Sprint("m", i))
	}
	b.StopAndDie(actors.Script("stop"))
	b.Redis.Del(b.Ctx, b.Keys.Run(), b.Keys.Record())
	b.Sweep()
	expect.List(t, "runs", b.Work())
	b.StopEnded(600)
}

// A worker finds and archives the messages of an unfinished stop, without any sender.
func TestStoppedMessagesAreFound(t *testing.T) {
	t.Parallel()
	const n = 1100
	for by, look := range map[string]func(b *actors.Bench){
		"reap":  func(b *actors.Bench) { b.StopAndDie(redistest.Named("zadd")); b.Overdue(rediskey.Owned); b.Reap() },
		"sweep": func(b *actors.Bench) { b.StopAndDie(actors.Script("stop")); b.Sweep() },
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			for i := range n {
				b.Enqueue(fmt.Sprint("m", i))
			}
			look(b)
			expect.List(t, "runs", b.Work())
			b.StopEnded(n)
		})
	}
}

// Idle sessions cost the sweep a few commands in all. It finds the one among them that lost its
// wake-up.
func TestSweepOfIdleSessions(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const idle = 5000
	leave(b, "s", idle, func(b *actors.Bench, p redis.Pipeliner, m member) {
		p.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: 1, Member: m.name})
		p.SAdd(b.Ctx, rediskey.AllQueues, rediskey.Queue(m.name))
	})
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	expect.Equal(t, "found", b.Sweep(), 0)
	t.Logf("%d commands, %d of them EXISTS", faults.CountCommands(), faults.CountNamed("exists"))
	if n := faults.CountCommands(); n > 200 {
		t.Errorf("a sweep of %d idle sessions takes %d commands", idle, n)
	}
	b.Redis.LPush(b.Ctx, rediskey.For("s4321").Pending(), rediskey.TaskID("s4321", "m"))
	expect.Equal(t, "found", b.Sweep(), 1)
	expect.List(t, "ready", b.Pop(), "s4321")
}

// A key of a wrong type in place of the outboxes' index does not keep the sweep from the sessions.
func TestSweepWithoutAnIndexOfOutboxes(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.Say("a")
	b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Owned)
	b.Redis.Set(b.Ctx, rediskey.Outbox, "no index", 0)
	found, _, err := b.Worker.Sweep(b.Ctx, time.Minute)
	expect.Equal(t, "found", found, 1)
	expect.Equal(t, "fails", err != nil, true)
}

// A session that only owes or stores an outcome has neither a message nor anything that needs attention.
// Not every sweep indexes a session that waits for its receiver or its turn.
func TestSweepIndexesOutboxes(t *testing.T) {
	t.Parallel()
	hour, soon, minute := time.Hour.Milliseconds(), int64(1000), time.Minute.Milliseconds()
	for name, c := range map[string]struct {
		owes        bool
		known, want int64 // ms from now; known 0: the index does not know the session
	}{
		"stores":                       {want: 0},
		"stores, is due soon":          {known: soon, want: soon},
		"stores, is due in an hour":    {known: hour, want: minute},
		"only owes":                    {owes: true, want: 0},
		"only owes, is due soon":       {owes: true, known: soon, want: soon},
		"only owes, is due in an hour": {owes: true, known: hour, want: hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Redis.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: 1, Member: actors.Key})
			owe(b, actors.Key, c.owes)
			before := b.Redis.Time(b.Ctx).Val().UnixMilli()
			if c.known > 0 {
				b.Redis.ZAdd(b.Ctx, rediskey.Outbox, redis.Z{Score: float64(before + c.known), Member: actors.Key})
			}
			_, _, err := b.Worker.Sweep(b.Ctx, time.Minute)
			expect.OK(t, err)
			took := b.Redis.Time(b.Ctx).Val().UnixMilli() - before
			score, err := b.Redis.ZScore(b.Ctx, rediskey.Outbox, actors.Key).Result()
			expect.OK(t, err)
			if at := int64(score) - before; at < c.want || at > c.want+took {
				t.Errorf("the session is due in %d ms, want %d; the sweep took %d ms", at, c.want, took)
			}
		})
	}
}

// Where 12 sweeps are made in a minute, one takes about a twelfth of the sessions that only owe an
// outcome, and all that store one.
func TestSweepIndexesSomeThatOwe(t *testing.T) {
	t.Parallel()
	const each = 600
	b := actors.NewBench(t)
	for i := range each {
		for _, owes := range []bool{true, false} {
			s := fmt.Sprintf("%t-%d", owes, i)
			b.Redis.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: 1, Member: s})
			owe(b, s, owes)
		}
	}
	now := b.Redis.Time(b.Ctx).Val()
	expect.OK(t, b.Redis.Set(b.Ctx, rediskey.Swept, now.UnixMilli(), time.Minute).Err())
	_, _, err := b.Worker.Sweep(b.Ctx, 5*time.Second)
	expect.OK(t, err)
	var owing, storing int
	for _, s := range b.Redis.ZRange(b.Ctx, rediskey.Outbox, 0, -1).Val() {
		if strings.HasPrefix(s, "true") {
			owing++
		} else {
			storing++
		}
	}
	expect.Equal(t, "that store", storing, each)
	if owing == 0 || owing > each/6 {
		t.Errorf("%d of %d that owe are looked at", owing, each)
	}
}

// One of the sweeps of a minute looks at a session that only owes something, however far apart they are.
func TestEachSessionIsDueInOneSweep(t *testing.T) {
	t.Parallel()
	for name, gaps := range map[string][]time.Duration{
		"at once":       {time.Minute},
		"punctual":      slices.Repeat([]time.Duration{15 * time.Second}, 4),
		"a little late": slices.Repeat([]time.Duration{201 * time.Millisecond, 399 * time.Millisecond}, 100),
		"irregular":     {time.Millisecond, 40 * time.Second, 3 * time.Second, 16999 * time.Millisecond},
	} {
		for i := range 100 {
			now, due := int64(1_795_425_838_434), 0
			for _, since := range gaps {
				if now += since.Milliseconds(); recovery.DueInSweep(fmt.Sprint("s", i), now, since) {
					due++
				}
			}
			expect.Equal(t, fmt.Sprintf("s%d, %s", i, name), due, 1)
		}
	}
}

// owe gives a session a promise, or a record.
func owe(b *actors.Bench, session string, promise bool) {
	if k := rediskey.For(session); promise {
		b.Redis.HSet(b.Ctx, k.Owed(), "id", "hook")
	} else {
		b.Redis.ZAdd(b.Ctx, k.Outbox(), redis.Z{Score: 1, Member: "hook 1"})
	}
}

// On a Cluster no command may have keys of two sessions.
func TestSweepOnCluster(t *testing.T) {
	t.Parallel()
	b := actors.BenchOn(t, redistest.StartCluster(t).Client())
	const n = 120 // at 50/s
	leave(b, "s", n, lostWakeUp)
	expect.Equal(t, "found", b.Sweep(), n)
	expect.Equal(t, "ready at once", count(b, rediskey.Ready), 5)
	expect.Equal(t, "recovered", b.Reap(), 5)
	_, err := b.Worker.Unregister(context.WithoutCancel(b.Ctx))
	expect.OK(t, err)
	expect.Equal(t, "listed", b.Redis.SCard(b.Ctx, rediskey.AllQueues).Val(), n)
}

// A worker that dies in mid-sweep costs the others some seconds, not an interval. One that lives
// keeps the sweep to itself, and the interval begins after it.
func TestSweepOfADeadWorker(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	members := make([]redis.Z, 1600)
	for i := range members {
		members[i] = redis.Z{Score: 1, Member: fmt.Sprint("s", i)}
	}
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Sessions, members...).Err())
	timer := rediskey.Timer("sweep")

	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	scans := faults.GateReply(redistest.Named("zscan"))
	ctx, die := context.WithCancel(b.Ctx)
	dead := make(chan error, 1)
	go func() {
		_, _, err := b.Worker.Sweep(ctx, time.Minute)
		dead <- err
	}()
	<-scans.Arrived()
	die()
	if err := <-dead; !errors.Is(err, context.Canceled) {
		t.Fatalf("error: %v", err)
	}
	if left := b.Redis.PTTL(b.Ctx, timer).Val(); left > 5*time.Second {
		t.Errorf("the next sweep is in %s", left)
	}
	faults.Clear()
	_, pause, err := actors.NewWorker(t, b.Redis, "two").Sweep(b.Ctx, time.Minute)
	expect.OK(t, err)
	if pause > 5*time.Second {
		t.Errorf("another worker comes again in %s", pause)
	}

	b.Redis.Del(b.Ctx, timer)
	faults.ResetCounts()
	_, pause, err = b.Worker.Sweep(b.Ctx, time.Minute)
	expect.OK(t, err)
	if n := faults.CountNamed("pexpire"); n < 3 {
		t.Errorf("it was extended %d times", n)
	}
	for what, left := range map[string]time.Duration{"the key's": b.Redis.PTTL(b.Ctx, timer).Val(), "its own": pause} {
		if left < 55*time.Second || left > time.Minute {
			t.Errorf("%s pause behind a whole sweep is %s", what, left)
		}
	}
}

// One sweep finds the sessions that no index has.
func TestSweep(t *testing.T) {
	t.Parallel()
	lost := map[string]func(b *actors.Bench){
		"a plain asynq.Client's task": func(b *actors.Bench) { b.Enqueue("a") },
		"a sender that died before its wake-up": func(b *actors.Bench) {
			b.Enqueue("a")
			b.Redis.Del(b.Ctx, rediskey.AllQueues)
			b.Redis.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: 1, Member: actors.Key})
		},
		"a lost wake-up": func(b *actors.Bench) {
			b.Say("a")
			b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Owned)
		},
		"unpause": func(b *actors.Bench) {
			b.Say("a")
			expect.OK(b, b.Inspector().PauseQueue(rediskey.Queue(actors.Key)))
			b.Pop()
			b.ClaimNothing("it is paused")
			b.Redis.Del(b.Ctx, rediskey.Owned)
			expect.Equal(b, "woken while paused", b.Sweep(), 0)
			expect.OK(b, b.Inspector().UnpauseQueue(rediskey.Queue(actors.Key)))
		},
		"run in asynqmon": func(b *actors.Bench) {
			b.Say("a")
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
			b.Pop()
			b.Redis.Del(b.Ctx, rediskey.Owned)
			expect.OK(b, b.Inspector().RunTask(rediskey.Queue(actors.Key), b.Task("a")))
		},
	}
	for name, lose := range lost {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			lose(b)
			expect.Equal(t, "woken", b.Sweep(), 1)
			expect.Equal(t, "listed for asynqmon", b.Redis.SIsMember(b.Ctx, rediskey.AllQueues, rediskey.Queue(actors.Key)).Val(), true)
			expect.Equal(t, "known", b.IsIn(rediskey.Sessions, actors.Key), true)
			expect.Equal(t, "owned", b.IsIn(rediskey.Owned, actors.Key), true)
			expect.List(t, "ready", b.Pop(), actors.Key)
			expect.List(t, "runs", b.Drain(), "a")
			b.Redis.Del(b.Ctx, rediskey.Owned)
			expect.Equal(t, "woken when nothing is left", b.Sweep(), 0)
		})
	}
}

// A sweep leaves dead owners to reap and delayed messages to due. Two sweeps in one interval count
// as one.
func TestSweepHandsOver(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Pop()
	b.Start()
	b.Redis.Del(b.Ctx, rediskey.Owned)
	expect.Equal(t, "woken while owned", b.Sweep(), 0)
	expect.Equal(t, "owned", b.IsIn(rediskey.Owned, actors.Key), true)
	b.Redis.Del(b.Ctx, rediskey.Owned)
	b.Die()
	expect.Equal(t, "woken when dead", b.Sweep(), 0)
	expect.Equal(t, "recovered", b.Reap(), 1)
	b.Drain()
	_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{Text: "later", Delay: time.Hour})
	expect.OK(t, err)
	b.Redis.Del(b.Ctx, rediskey.Due, rediskey.Ready)
	expect.Equal(t, "woken when delayed", b.Sweep(), 0)
	expect.Equal(t, "due", b.IsIn(rediskey.Due, actors.Key), true)

	b.Enqueue("b")
	n, _, err := actors.NewWorker(t, b.Redis, "two").Sweep(b.Ctx, time.Minute)
	expect.OK(t, err)
	expect.Equal(t, "woken by another worker in the same interval", n, 0)
}
