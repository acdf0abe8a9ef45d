package recovery_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A run that has spent its budget does not look at the others.
func TestReapStopsAtTheBudget(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t) // 50/s: 5 in a run
	leave(b, "s", 1000, orphan)
	b.Load("look")
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	expect.Equal(t, "recovered", b.Reap(), 5)
	if n := faults.CountCommands(); n > 130 {
		t.Errorf("it took %d commands", n)
	}
	if n := faults.CountNamed("evalsha"); n > 10 {
		t.Errorf("it took %d scripts", n)
	}
}

// The recovery of dead owners does not wait until each living one was looked at, nor the other way
// round.
func TestReapLooksPastTheLiving(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const living = 300
	leave(b, "living", living, func(b *actors.Bench, p redis.Pipeliner, m member) {
		orphan(b, p, m)
		p.Set(b.Ctx, m.k.Sentinel(), "alive", time.Minute)
	})
	leave(b, "orphan", 7, orphan)
	expect.Equal(t, "recovered", b.Reap(), 5)
	expect.Equal(t, "then", b.Reap(), 2)
	later := b.Redis.ZCount(b.Ctx, rediskey.Owned, fmt.Sprint(time.Now().Add(30*time.Second).UnixMilli()), "+inf").Val()
	expect.Equal(t, "living, looked at again at their sentinel's end", later, living)
}

// Redis' clock was fast and is set back. A session that became ready before that is claimed before the
// later ones.
func TestReadyUnderAClockThatFellBack(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	ahead := float64(b.Redis.Time(b.Ctx).Val().Add(time.Hour).UnixMilli())
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Ready, redis.Z{Score: ahead, Member: actors.Key}).Err())
	b.Reap()
	for i := range 3 {
		_, err := b.Client.Session(fmt.Sprint("later", i)).Send(b.Ctx, turnstile.Message{Text: "x"})
		expect.OK(t, err)
	}
	sessions, err := b.Worker.Pop(b.Ctx, 1)
	expect.OK(t, err)
	if !slices.Equal(sessions, []string{actors.Key}) {
		t.Errorf("popped %q before the one that was there", sessions)
	}
	b.Reap()
	expect.Equal(t, "ready again, though it was taken", b.IsIn(rediskey.Ready, actors.Key), false)
}

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

// The worker died between pop and claim.
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
	_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "a", Text: "a", Delay: time.Hour})
	expect.OK(t, err)
	b.Redis.Del(b.Ctx, rediskey.Due)
	b.Redis.ZAdd(b.Ctx, rediskey.Owned, redis.Z{Score: 1, Member: actors.Key})
	b.Reap()
	expect.Equal(t, "due", b.IsIn(rediskey.Due, actors.Key), true)
	expect.Equal(t, "owned", b.IsIn(rediskey.Owned, actors.Key), false)
}

// Sixth invariant: many orphans do not wake at once, and the pauses between runs are kept.
func TestReapIsPaced(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.RecoveryRate = 30 })
	const n = 12
	var sessions []string
	for i := range n {
		s := fmt.Sprint("s", i)
		sessions = append(sessions, s)
		_, err := b.Client.Session(s).Send(b.Ctx, turnstile.Message{Text: "x"})
		expect.OK(t, err)
	}
	b.Pop()
	claims, err := b.Worker.Claim(b.Ctx, sessions)
	expect.OK(t, err)
	expect.Equal(t, "claims", len(claims), n)
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

// A session that cannot be claimed is not woken, again and again: whichever of its keys is broken,
// recovery says so, and looks again much later.
func TestBrokenSessionIsNotWoken(t *testing.T) {
	t.Parallel()
	keys := map[string]func(rediskey.Session) string{
		"run": rediskey.Session.Run, "record": rediskey.Session.Record, "followups": rediskey.Session.Followups,
		"resume": rediskey.Session.Resume, "events": rediskey.Session.Events, "journal": rediskey.Session.Journal,
		"pending": rediskey.Session.Pending, "active": rediskey.Session.Active, "lease": rediskey.Session.Lease,
		"paused": rediskey.Session.Paused, "scheduled": rediskey.Session.Scheduled, "retry": rediskey.Session.Retry,
		"completed": rediskey.Session.Completed, "archived": rediskey.Session.Archived, "stopped": rediskey.Session.Stopped,
		"owed": rediskey.Session.Owed, "outbox": rediskey.Session.Outbox, "deliveries": rediskey.Session.Deliveries,
		"state": rediskey.Session.State, "undelivered": rediskey.Session.Undelivered,
	}
	for name, key := range keys {
		for _, died := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, died %v", name, died), func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				b.Say("m")
				if died {
					b.Start()
					b.Die()
				}
				b.Pop()
				spoilt := key(rediskey.For(actors.Key))
				expect.OK(t, b.Redis.Del(b.Ctx, spoilt).Err())
				expect.OK(t, b.Redis.XAdd(b.Ctx, &redis.XAddArgs{Stream: spoilt, Values: []string{"a", "b"}}).Err())
				if name == "events" {
					expect.OK(t, b.Redis.Del(b.Ctx, spoilt).Err())
					expect.OK(t, b.Redis.Set(b.Ctx, spoilt, "spoilt", 0).Err())
				}
				for range 3 {
					expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Owned, redis.Z{Score: 1, Member: actors.Key}).Err())
					_, _, reaped := b.Worker.Reap(b.Ctx)
					sessions := b.Pop()
					if len(sessions) == 0 {
						continue
					}
					if _, err := b.Worker.Claim(b.Ctx, sessions); err != nil {
						t.Errorf("it was woken, and cannot be claimed: %v; reap said %v", err, reaped)
					}
				}
			})
		}
	}
}

// A broken session does not stop the others.
func TestBrokenSessionStopsNobody(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	broken := func(s string) { b.Redis.Set(b.Ctx, rediskey.For(s).Pending(), "spoilt", 0) }
	_, err := b.Client.Session("good").Send(b.Ctx, turnstile.Message{Text: "x"})
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

	// More than one batch of a walk, so that some come after the broken ones.
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

// afterPipeline calls do after the first pipeline, or the first with a command that has this key.
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
