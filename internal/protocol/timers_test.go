package protocol_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// pop takes what is ready, and does not wait: go-redis blocks no less than a second.
func (b *bench) pop() []string {
	b.Helper()
	if others, err := b.c.OthersWait(b.ctx); err != nil || !others {
		expect.OK(b, err)
		return nil
	}
	sessions, err := b.c.Pop(b.ctx, 1000)
	expect.OK(b, err)
	return sessions
}

func TestReapFindsADeadOwner(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	expect.List(t, "popped", b.pop(), key)
	b.start()
	b.overdue(rediskey.Owned)
	expect.Equal(t, "while it lives", b.reap(), 0)
	if score := b.rdb.ZScore(b.ctx, rediskey.Owned, key).Val(); score < float64(time.Now().Add(50*time.Second).UnixMilli()) {
		t.Errorf("looked at again at %v", score)
	}
	expect.Equal(t, "ready", b.isIn(rediskey.Ready, key), false)
	b.die()
	b.overdue(rediskey.Owned)
	expect.Equal(t, "when it is dead", b.reap(), 1)
	expect.List(t, "popped", b.pop(), key)
	expect.List(t, "runs", b.drain(), "a")
	b.overdue(rediskey.Owned)
	expect.Equal(t, "when nothing is left", b.reap(), 0)
	expect.Equal(t, "owned", b.isIn(rediskey.Owned, key), false)
}

// The claimer died between pop and claim.
func TestReapFindsADeadClaimer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	expect.List(t, "popped", b.pop(), key)
	b.reap()
	expect.Equal(t, "at once", b.isIn(rediskey.Ready, key), false)
	b.overdue(rediskey.Owned)
	b.reap()
	expect.List(t, "popped again", b.pop(), key)
	expect.Equal(t, "still owned", b.isIn(rediskey.Owned, key), true)
}

func TestReapPutsWhatHasToWaitIntoDue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.client.Submit(b.ctx, key, session.Message{ID: "a", Text: "a"}, turnstile.Delay(time.Hour))
	expect.OK(t, err)
	b.rdb.Del(b.ctx, rediskey.Due)
	b.rdb.ZAdd(b.ctx, rediskey.Owned, redis.Z{Score: 1, Member: key})
	b.reap()
	expect.Equal(t, "due", b.isIn(rediskey.Due, key), true)
	expect.Equal(t, "owned", b.isIn(rediskey.Owned, key), false)
}

// Sixth invariant: many orphans are not put to work at once; and the pauses
// between the runs are kept.
func TestReapIsPaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.RecoveryRate = 30 })
	const n = 12
	var sessions []string
	for i := range n {
		s := fmt.Sprint("s", i)
		sessions = append(sessions, s)
		_, err := b.client.Submit(b.ctx, s, session.Message{Text: "x"})
		expect.OK(t, err)
	}
	b.pop()
	holds, err := b.c.Claim(b.ctx, sessions)
	expect.OK(t, err)
	expect.Equal(t, "holds", len(holds), n)
	for _, s := range sessions {
		b.rdb.Del(b.ctx, rediskey.For(s).Sentinel())
	}
	b.overdue(rediskey.Owned)
	began := time.Now()
	recovered, runs := 0, 0
	other := newWorker(t, b.rdb, "two", func(c *sq.Config) { c.RecoveryRate = 30 })
	expect.Soon(t, "all to be recovered", func() bool {
		for _, c := range []*actors.Consumer{b.c, other} {
			r, pause, err := c.Reap(b.ctx)
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
	expect.Equal(t, "ready", b.rdb.ZCard(b.ctx, rediskey.Ready).Val(), n)
}

// One broken session does not stop the others.
func TestBrokenSessionStopsNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	broken := func(s string) { b.rdb.Set(b.ctx, rediskey.For(s).Pending(), "spoilt", 0) }
	_, err := b.client.Submit(b.ctx, "good", session.Message{Text: "x"})
	expect.OK(t, err)
	b.pop()
	for _, s := range []string{"bad", "good"} {
		b.rdb.ZAdd(b.ctx, rediskey.Owned, redis.Z{Score: 1, Member: s})
	}
	broken("bad")
	if _, _, err := b.c.Reap(b.ctx); err == nil {
		t.Error("reap keeps quiet about a broken session")
	}
	expect.List(t, "reaped", b.pop(), "good")

	// More than one batch of a walk, so that the broken ones stand before others.
	const n = 1600
	halfBroken := func(t *testing.T, name func(rediskey.Session) string, good func(p redis.Pipeliner, key string)) *bench {
		b := newBench(t)
		_, err := b.rdb.Pipelined(b.ctx, func(p redis.Pipeliner) error {
			for i := range n {
				s := fmt.Sprint("s", i)
				p.SAdd(b.ctx, rediskey.AllQueues, rediskey.Queue(s))
				if i%2 == 0 {
					p.Set(b.ctx, name(rediskey.For(s)), "spoilt", 0)
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
		woken, _, err := b.c.Sweep(b.ctx, time.Minute)
		if err == nil {
			t.Error("sweep keeps quiet about broken sessions")
		}
		expect.Equal(t, "woken", woken, n/2)
	})
	t.Run("purge", func(t *testing.T) {
		b := halfBroken(t, rediskey.Session.Completed, func(p redis.Pipeliner, key string) {
			p.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: "x"})
		})
		deleted, err := b.c.Purge(b.ctx)
		if err == nil {
			t.Error("purge keeps quiet about broken sessions")
		}
		expect.Equal(t, "deleted", deleted, n/2)
	})
	t.Run("forget", func(t *testing.T) {
		b := newBench(t)
		for _, s := range []string{"bad1", "good", "bad2"} {
			b.rdb.ZAdd(b.ctx, rediskey.Sessions, redis.Z{Score: 1, Member: s})
		}
		b.rdb.Set(b.ctx, rediskey.For("bad1").Record(), "spoilt", 0)
		b.rdb.Set(b.ctx, rediskey.For("bad2").Record(), "spoilt", 0)
		n, err := b.c.Forget(b.ctx)
		if err == nil {
			t.Error("forget keeps quiet about broken sessions")
		}
		expect.Equal(t, "forgotten", n, 1)
	})
}

func TestDue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.pop()
	b.rdb.Del(b.ctx, rediskey.Owned)
	now := time.Now()
	b.rdb.ZAdd(b.ctx, rediskey.Due, redis.Z{Score: float64(now.UnixMilli()), Member: key},
		redis.Z{Score: float64(now.Add(time.Hour).UnixMilli()), Member: "later"})
	pause, err := b.c.Due(b.ctx)
	expect.OK(t, err)
	if pause <= 0 || pause > time.Second {
		t.Errorf("pause %s", pause)
	}
	expect.Equal(t, "owned before ready", b.isIn(rediskey.Owned, key), true)
	expect.List(t, "ready", b.pop(), key)
	expect.List(t, "due", b.rdb.ZRange(b.ctx, rediskey.Due, 0, -1).Val(), "later")
}

// A member whose time is changed while it is moved stays.
func TestDueRace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.rdb.ZAdd(b.ctx, rediskey.Due, redis.Z{Score: 5, Member: "s"})
	b.rdb.AddHook(&afterPipeline{do: func() { b.rdb.ZAdd(b.ctx, rediskey.Due, redis.Z{Score: 3, Member: "s"}) }})
	_, err := b.c.Due(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "due", b.rdb.ZScore(b.ctx, rediskey.Due, "s").Val(), 3)
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
	lost := map[string]func(b *bench){
		"a plain asynq.Client's task": func(b *bench) { b.enqueue("a") },
		"a sender that died before it rang": func(b *bench) {
			b.enqueue("a")
			b.rdb.Del(b.ctx, rediskey.AllQueues)
			b.rdb.ZAdd(b.ctx, rediskey.Sessions, redis.Z{Score: 1, Member: key})
		},
		"a lost wake-up": func(b *bench) {
			b.say("a")
			b.rdb.Del(b.ctx, rediskey.Ready, rediskey.Owned)
		},
		"unpause": func(b *bench) {
			b.say("a")
			expect.OK(b, b.inspector().PauseQueue(rediskey.Queue(key)))
			b.pop()
			b.claimNothing("it is paused")
			b.rdb.Del(b.ctx, rediskey.Owned)
			expect.Equal(b, "woken while paused", b.sweep(), 0)
			expect.OK(b, b.inspector().UnpauseQueue(rediskey.Queue(key)))
		},
		"run in asynqmon": func(b *bench) {
			b.say("a")
			_, err := b.client.Stop(b.ctx, key)
			expect.OK(b, err)
			b.pop()
			b.rdb.Del(b.ctx, rediskey.Owned)
			expect.OK(b, b.inspector().RunTask(rediskey.Queue(key), b.task("a")))
		},
	}
	for name, lose := range lost {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lose(b)
			expect.Equal(t, "woken", b.sweep(), 1)
			expect.Equal(t, "listed for asynqmon", b.rdb.SIsMember(b.ctx, rediskey.AllQueues, rediskey.Queue(key)).Val(), true)
			expect.Equal(t, "known", b.isIn(rediskey.Sessions, key), true)
			expect.Equal(t, "owned", b.isIn(rediskey.Owned, key), true)
			expect.List(t, "ready", b.pop(), key)
			expect.List(t, "runs", b.drain(), "a")
			b.rdb.Del(b.ctx, rediskey.Owned)
			expect.Equal(t, "woken when nothing is left", b.sweep(), 0)
		})
	}
}

// A sweep leaves dead owners to reap, and delayed messages to due; two sweeps in
// one interval are one.
func TestSweepHandsOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.pop()
	b.start()
	b.rdb.Del(b.ctx, rediskey.Owned)
	expect.Equal(t, "woken while owned", b.sweep(), 0)
	expect.Equal(t, "owned", b.isIn(rediskey.Owned, key), true)
	b.rdb.Del(b.ctx, rediskey.Owned)
	b.die()
	expect.Equal(t, "woken when dead", b.sweep(), 0)
	expect.Equal(t, "recovered", b.reap(), 1)
	b.drain()
	_, err := b.client.Submit(b.ctx, key, session.Message{Text: "later"}, turnstile.Delay(time.Hour))
	expect.OK(t, err)
	b.rdb.Del(b.ctx, rediskey.Due, rediskey.Ready)
	expect.Equal(t, "woken when delayed", b.sweep(), 0)
	expect.Equal(t, "due", b.isIn(rediskey.Due, key), true)

	b.enqueue("b")
	n, _, err := newWorker(t, b.rdb, "two").Sweep(b.ctx, time.Minute)
	expect.OK(t, err)
	expect.Equal(t, "woken by another worker in the same interval", n, 0)
}
