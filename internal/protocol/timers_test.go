package protocol_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func TestReapFindsADeadOwner(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	expect.List(t, "popped", b.Pop(), actors.Key)
	b.Start()
	b.Overdue(rediskey.Owned)
	expect.Equal(t, "while it lives", b.Reap(), 0)
	if score := b.Redis.ZScore(b.Ctx, rediskey.Owned, actors.Key).Val(); score < float64(time.Now().Add(50*time.Second).UnixMilli()) {
		t.Errorf("looked at again at %v", score)
	}
	expect.Equal(t, "ready", b.IsIn(rediskey.Ready, actors.Key), false)
	b.Die()
	b.Overdue(rediskey.Owned)
	expect.Equal(t, "when it is dead", b.Reap(), 1)
	expect.List(t, "popped", b.Pop(), actors.Key)
	expect.List(t, "runs", b.Drain(), "a")
	b.Overdue(rediskey.Owned)
	expect.Equal(t, "when nothing is left", b.Reap(), 0)
	expect.Equal(t, "owned", b.IsIn(rediskey.Owned, actors.Key), false)
}

// The claimer died between pop and claim.
func TestReapFindsADeadClaimer(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	expect.List(t, "popped", b.Pop(), actors.Key)
	b.Reap()
	expect.Equal(t, "at once", b.IsIn(rediskey.Ready, actors.Key), false)
	b.Overdue(rediskey.Owned)
	b.Reap()
	expect.List(t, "popped again", b.Pop(), actors.Key)
	expect.Equal(t, "still owned", b.IsIn(rediskey.Owned, actors.Key), true)
}

func TestReapPutsWhatHasToWaitIntoDue(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	_, err := b.Client.Submit(b.Ctx, actors.Key, session.Message{ID: "a", Text: "a"}, turnstile.Delay(time.Hour))
	expect.OK(t, err)
	b.Redis.Del(b.Ctx, rediskey.Due)
	b.Redis.ZAdd(b.Ctx, rediskey.Owned, redis.Z{Score: 1, Member: actors.Key})
	b.Reap()
	expect.Equal(t, "due", b.IsIn(rediskey.Due, actors.Key), true)
	expect.Equal(t, "owned", b.IsIn(rediskey.Owned, actors.Key), false)
}

// Sixth invariant: many orphans are not put to work at once; and the pauses
// between the runs are kept.
func TestReapIsPaced(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.RecoveryRate = 30 })
	const n = 12
	var sessions []string
	for i := range n {
		s := fmt.Sprint("s", i)
		sessions = append(sessions, s)
		_, err := b.Client.Submit(b.Ctx, s, session.Message{Text: "x"})
		expect.OK(t, err)
	}
	b.Pop()
	holds, err := b.Worker.Claim(b.Ctx, sessions)
	expect.OK(t, err)
	expect.Equal(t, "holds", len(holds), n)
	for _, s := range sessions {
		b.Redis.Del(b.Ctx, rediskey.For(s).Sentinel())
	}
	b.Overdue(rediskey.Owned)
	began := time.Now()
	recovered, runs := 0, 0
	other := actors.NewWorker(t, b.Redis, "two", func(c *protocol.Config) { c.RecoveryRate = 30 })
	expect.Soon(t, "all to be recovered", func() bool {
		for _, c := range []*actors.Consumer{b.Worker, other} {
			r, pause, err := c.Reap(b.Ctx)
			expect.OK(t, err)
			if pause <= 0 || pause > time.Second {
				t.Fatalf("pause %s", pause)
			}
			if r > 0 {
				runs++
			}
			recovered += r
		}
		return recovered >= n
	})
	// 12 at 30 a second: the first 3 are free, the other 9 take 300 ms.
	if took := time.Since(began); took < 290*time.Millisecond || runs < n/3 {
		t.Errorf("%d were recovered in %s and %d runs", recovered, took, runs)
	}
	expect.Equal(t, "recovered", recovered, n)
	expect.Equal(t, "ready", b.Redis.ZCard(b.Ctx, rediskey.Ready).Val(), n)
}

// One broken session does not stop the others.
func TestBrokenSessionStopsNobody(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	broken := func(s string) { b.Redis.Set(b.Ctx, rediskey.For(s).Pending(), "spoilt", 0) }
	_, err := b.Client.Submit(b.Ctx, "good", session.Message{Text: "x"})
	expect.OK(t, err)
	b.Pop()
	for _, s := range []string{"bad", "good"} {
		b.Redis.ZAdd(b.Ctx, rediskey.Owned, redis.Z{Score: 1, Member: s})
	}
	broken("bad")
	if _, _, err := b.Worker.Reap(b.Ctx); err == nil {
		t.Error("reap keeps quiet about a broken session")
	}
	expect.List(t, "reaped", b.Pop(), "good")

	// More than one batch of a walk, so that the broken ones stand before others.
	const n = 1600
	halfBroken := func(t *testing.T, name func(rediskey.Session) string, good func(p redis.Pipeliner, key string)) *actors.Bench {
		b := actors.NewBench(t)
		_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
			for i := range n {
				s := fmt.Sprint("s", i)
				p.SAdd(b.Ctx, rediskey.AllQueues, rediskey.Queue(s))
				if i%2 == 0 {
					p.Set(b.Ctx, name(rediskey.For(s)), "spoilt", 0)
				} else {
					good(p, name(rediskey.For(s)))
				}
			}
			return nil
		})
		expect.OK(t, err)
		return b
	}
	t.Run("sweep", func(t *testing.T) {
		b := halfBroken(t, rediskey.Session.Pending, func(p redis.Pipeliner, key string) { p.LPush(t.Context(), key, "x") })
		woken, _, err := b.Worker.Sweep(b.Ctx, time.Minute)
		if err == nil {
			t.Error("sweep keeps quiet about broken sessions")
		}
		expect.Equal(t, "woken", woken, n/2)
	})
	t.Run("purge", func(t *testing.T) {
		b := halfBroken(t, rediskey.Session.Completed, func(p redis.Pipeliner, key string) {
			p.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: "x"})
		})
		deleted, err := b.Worker.Purge(b.Ctx)
		if err == nil {
			t.Error("purge keeps quiet about broken sessions")
		}
		expect.Equal(t, "deleted", deleted, n/2)
	})
	t.Run("forget", func(t *testing.T) {
		b := actors.NewBench(t)
		for _, s := range []string{"bad1", "good", "bad2"} {
			b.Redis.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: 1, Member: s})
		}
		b.Redis.Set(b.Ctx, rediskey.For("bad1").Record(), "spoilt", 0)
		b.Redis.Set(b.Ctx, rediskey.For("bad2").Record(), "spoilt", 0)
		n, err := b.Worker.Forget(b.Ctx)
		if err == nil {
			t.Error("forget keeps quiet about broken sessions")
		}
		expect.Equal(t, "forgotten", n, 1)
	})
}

func TestDue(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Pop()
	b.Redis.Del(b.Ctx, rediskey.Owned)
	now := time.Now()
	b.Redis.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: float64(now.UnixMilli()), Member: actors.Key},
		redis.Z{Score: float64(now.Add(time.Hour).UnixMilli()), Member: "later"})
	pause, err := b.Worker.Due(b.Ctx)
	expect.OK(t, err)
	if pause <= 0 || pause > time.Second {
		t.Errorf("pause %s", pause)
	}
	expect.Equal(t, "owned before ready", b.IsIn(rediskey.Owned, actors.Key), true)
	expect.List(t, "ready", b.Pop(), actors.Key)
	expect.List(t, "due", b.Redis.ZRange(b.Ctx, rediskey.Due, 0, -1).Val(), "later")
}

// A member whose time is changed while it is moved stays.
func TestDueRace(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Redis.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: 5, Member: "s"})
	b.Redis.AddHook(&afterPipeline{do: func() { b.Redis.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: 3, Member: "s"}) }})
	_, err := b.Worker.Due(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "due", b.Redis.ZScore(b.Ctx, rediskey.Due, "s").Val(), 3)
}

// afterPipeline calls do after the first pipeline, or the first that has a command with
// this key.
type afterPipeline struct {
	key  string
	do   func()
	done bool
}

func (f *afterPipeline) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *afterPipeline) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f *afterPipeline) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		has := func(cmd redis.Cmder) bool { return f.key == "" || slices.Contains(cmd.Args(), any(f.key)) }
		if !f.done && slices.ContainsFunc(cmds, has) {
			f.done = true
			f.do()
		}
		return err
	}
}

// What no index knows of is found by one sweep.
func TestSweep(t *testing.T) {
	t.Parallel()
	lost := map[string]func(b *actors.Bench){
		"a plain asynq.Client's task": func(b *actors.Bench) { b.Enqueue("a") },
		"a sender that died before it rang": func(b *actors.Bench) {
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
			_, err := b.Client.Stop(b.Ctx, actors.Key)
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

// A sweep leaves dead owners to reap, and delayed messages to due; two sweeps in
// one interval are one.
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
	_, err := b.Client.Submit(b.Ctx, actors.Key, session.Message{Text: "later"}, turnstile.Delay(time.Hour))
	expect.OK(t, err)
	b.Redis.Del(b.Ctx, rediskey.Due, rediskey.Ready)
	expect.Equal(t, "woken when delayed", b.Sweep(), 0)
	expect.Equal(t, "due", b.IsIn(rediskey.Due, actors.Key), true)

	b.Enqueue("b")
	n, _, err := actors.NewWorker(t, b.Redis, "two").Sweep(b.Ctx, time.Minute)
	expect.OK(t, err)
	expect.Equal(t, "woken by another worker in the same interval", n, 0)
}
