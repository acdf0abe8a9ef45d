package recovery_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// The sweep enters sessions that need attention for whatever reason, and removes them when it is
// over, whoever has changed them.
func TestSweepRepairsTheLists(t *testing.T) {
	t.Parallel()
	lost := func(b *actors.Bench) {
		b.Redis.Del(b.Ctx, rediskey.Attention, rediskey.Names)
		b.Sweep()
	}
	for name, c := range map[string]struct {
		needs, ends     func(b *actors.Bench)
		questions, dead int64 // that the sweep counts
	}{
		"paused": {
			needs: func(b *actors.Bench) { expect.OK(b, b.Inspector().PauseQueue(rediskey.Queue(actors.Key))) },
			ends:  func(b *actors.Bench) { expect.OK(b, b.Inspector().UnpauseQueue(rediskey.Queue(actors.Key))) },
		},
		"suspended": {
			needs: func(b *actors.Bench) {
				_, err := resume.Suspend(b.Ctx, b.Redis, actors.Key)
				expect.OK(b, err)
			},
			ends: func(b *actors.Bench) { b.Say("next"); b.Drain() },
		},
		"a dead letter": {
			needs: func(b *actors.Bench) {
				b.Say("dead")
				expect.OK(b, b.Inspector().ArchiveTask(rediskey.Queue(actors.Key), b.Task("dead")))
			},
			ends: func(b *actors.Bench) {
				_, err := b.Client.Operate(actors.Key).DeleteDeadLetters(b.Ctx, admin.All)
				expect.OK(b, err)
			},
			dead: 1,
		},
		"a question": {
			needs: func(b *actors.Bench) { b.Say("asks"); b.Asks(b.Start(), "run make") },
			ends: func(b *actors.Bench) {
				_, err := b.Client.Session(actors.Key).Decide(b.Ctx, "1", session.Allow)
				expect.OK(b, err)
			},
			questions: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			b.Drain()
			lost(b)
			expect.Equal(t, "in the order of keys", b.IsIn(rediskey.Names, actors.Key), true)
			expect.Equal(t, "needs attention", b.IsIn(rediskey.Attention, actors.Key), false)
			counted := func(questions, dead int64) {
				t.Helper()
				b.Sweep()
				backlog, err := b.Client.Backlog(b.Ctx)
				expect.OK(t, err)
				expect.Equal(t, "open questions", backlog.Questions, questions)
				expect.Equal(t, "dead letters", backlog.DeadLetters, dead)
			}
			c.needs(b)
			lost(b)
			expect.Equal(t, "needs attention", b.IsIn(rediskey.Attention, actors.Key), true)
			counted(c.questions, c.dead)
			c.ends(b)
			counted(0, 0)
			expect.Equal(t, "needs attention any more", b.IsIn(rediskey.Attention, actors.Key), false)
		})
	}
}

// A reason that comes while the sweep looks is not removed.
func TestSweepKeepsANewReason(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Attention, redis.Z{Score: 1, Member: actors.Key}).Err())
	other := actors.NewWorker(t, b.BareRedis(), "other")
	done := false
	b.Redis.AddHook(actors.Before(actors.Script("rescore"), func() {
		if done {
			return
		}
		done = true
		b.Say("fails")
		claims, err := other.Claim(b.Ctx, []string{actors.Key})
		expect.OK(t, err)
		_, err = claims[0].Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "it failed"})
		expect.OK(t, err)
	}))
	b.Sweep()
	expect.Equal(t, "the hook ran", done, true)
	expect.Equal(t, "needs attention", b.IsIn(rediskey.Attention, actors.Key), true)
	expect.Equal(t, "status", b.Outcome("fails").Status, session.StatusFailed)
}
