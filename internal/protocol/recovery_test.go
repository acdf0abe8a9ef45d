package protocol_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// crowd is how many sessions an outage leaves behind.
const crowd = 10_000

// member is one of a crowd, with a message of its own.
type member struct {
	name string
	k    rediskey.Session
	task string
}

// left is what an outage leaves of a session, beside its task.
type left func(b *bench, p redis.Pipeliner, m member)

// orphan: its worker died in mid-turn.
func orphan(b *bench, p redis.Pipeliner, m member) {
	p.LPush(b.ctx, m.k.Active(), m.task)
	p.HSet(b.ctx, m.k.Run(), "token", "dead", "fence", "1", "phase", "running", "ids", fmt.Sprintf("[%q]", m.task), "sid", "s")
	p.ZAdd(b.ctx, rediskey.Owned, redis.Z{Score: 1, Member: m.name})
}

// overdue: its delayed message's time came a minute ago, and no worker was there.
func overdue(b *bench, p redis.Pipeliner, m member) { dueAt(b, p, m, time.Now().Add(-time.Minute)) }

func dueAt(b *bench, p redis.Pipeliner, m member, at time.Time) {
	p.ZAdd(b.ctx, m.k.Scheduled(), redis.Z{Score: float64(at.Unix()), Member: m.task})
	p.ZAdd(b.ctx, rediskey.Due, redis.Z{Score: float64(at.UnixMilli()), Member: m.name})
}

// unannounced: a plain asynq.Client's, or an index was lost.
func unannounced(b *bench, p redis.Pipeliner, m member) {
	p.LPush(b.ctx, m.k.Pending(), m.task)
	p.SAdd(b.ctx, rediskey.AllQueues, rediskey.Queue(m.name))
}

// leave makes n sessions of the same kind, in few round trips.
func (b *bench) leave(prefix string, n int, l left) (sessions []string) {
	b.Helper()
	b.enqueue("template")
	msg, err := b.rdb.HGet(b.ctx, b.k.Task(b.task("template")), "msg").Result()
	expect.OK(b, err)
	expect.OK(b, b.inspector().DeleteQueue(rediskey.Queue(key), true))
	const batch = 1000
	for len(sessions) < n {
		_, err := b.rdb.Pipelined(b.ctx, func(p redis.Pipeliner) error {
			for range min(batch, n-len(sessions)) {
				name := fmt.Sprint(prefix, len(sessions))
				m := member{name, rediskey.For(name), rediskey.TaskID(name, "m")}
				p.HSet(b.ctx, m.k.Task(m.task), "msg", msg, "state", "pending")
				l(b, p, m)
				sessions = append(sessions, name)
			}
			return nil
		})
		expect.OK(b, err)
	}
	return sessions
}

func (b *bench) count(index string) int {
	b.Helper()
	n, err := b.rdb.ZCard(b.ctx, index).Result()
	expect.OK(b, err)
	return int(n)
}

// recover runs reap until want sessions are ready: no more than burst in a run,
// and none of them is out of the owned index at any time.
func (b *bench) recover(want, burst int) {
	b.Helper()
	for ready := b.count(rediskey.Ready); ready < want; {
		n := b.reap()
		now := b.count(rediskey.Ready)
		if n == 0 || n > burst || now-ready != n {
			b.Fatalf("a run recovered %d sessions, %d more are ready; allowed are %d", n, now-ready, burst)
		}
		if owned := b.count(rediskey.Owned); owned != want {
			b.Fatalf("%d of %d sessions are in the owned index", owned, want)
		}
		ready = now
	}
	expect.Equal(b, "recovered when all are", b.reap(), 0)
}

// runAll claims every ready session: want of them, with their messages.
func (b *bench) runAll(want int) {
	b.Helper()
	ran := map[string]bool{}
	for sessions := b.pop(); len(sessions) > 0; sessions = b.pop() {
		holds, err := b.c.Claim(b.ctx, sessions)
		expect.OK(b, err)
		for _, h := range holds {
			if turn := h.Turn(); turn.Err == nil && turn.Message.ID == "m" {
				ran[turn.Session] = true
			}
		}
	}
	expect.Equal(b, "sessions that run", len(ran), want)
}

// A rate whose burst is a twentieth of a crowd.
func crowdRate(c *sq.Config) { c.RecoveryRate = 10 * crowd / 20 }

const crowdBurst = crowd / 20

func TestB80_OrphansAtABoundedPace(t *testing.T) {
	t.Parallel()
	redistest.Real(t) // the embedded one is too slow for thousands of sessions
	b := newBench(t, crowdRate)
	b.leave("s", crowd, orphan)
	b.recover(crowd, crowdBurst)
	b.runAll(crowd)
}

// What is due on time does not wait behind what is overdue.
func TestB80_OverdueAtABoundedPace(t *testing.T) {
	t.Parallel()
	redistest.Real(t) // the embedded one is too slow for thousands of sessions
	b := newBench(t, crowdRate)
	b.leave("s", crowd, overdue)
	const onTime = 10
	b.leave("punctual", onTime, func(b *bench, p redis.Pipeliner, m member) { dueAt(b, p, m, time.Now()) })
	runs := 0
	for pause := time.Duration(0); pause == 0; runs++ {
		var err error
		pause, err = b.c.Due(b.ctx)
		expect.OK(t, err)
	}
	if runs > crowd/1000+1 {
		t.Errorf("those on time had to wait for %d runs", runs)
	}
	expect.Equal(t, "ready at once", b.count(rediskey.Ready), onTime)
	expect.Equal(t, "of them on time", b.isIn(rediskey.Ready, "punctual0"), true)
	expect.Equal(t, "left in due", b.count(rediskey.Due), 0)
	b.recover(crowd+onTime, crowdBurst)
	b.runAll(crowd + onTime)
}

// All senders were plain asynq.Clients, or Redis was restored without its indexes.
func TestB80_UnannouncedAtABoundedPace(t *testing.T) {
	t.Parallel()
	b := newBench(t, crowdRate)
	b.leave("s", crowd, unannounced)
	expect.Equal(t, "found", b.sweep(), crowd)
	expect.Equal(t, "ready at once", b.count(rediskey.Ready), crowdBurst)
	expect.Equal(t, "found again while they wait", b.sweep(), 0)
	expect.Equal(t, "ready", b.count(rediskey.Ready), crowdBurst)
	b.recover(crowd, crowdBurst)
	b.runAll(crowd)
}

// One pace for all kinds, and those that were late first come first.
func TestB80_AllKindsShareThePace(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.RecoveryRate = 100 })
	const each = 40
	b.leave("plain", each, unannounced)
	b.leave("orphan", each, orphan)
	b.leave("overdue", each, overdue)
	b.sweep()
	b.due()
	const burst = 10
	expect.Equal(t, "ready at once", b.count(rediskey.Ready), burst)
	for _, next := range []string{"orphan", "overdue", "plain"} {
		for range each / burst {
			if next == "plain" && b.count(rediskey.Ready) == 3*each {
				break // the sweep's own
			}
			expect.Equal(t, "recovered", b.reap(), burst)
		}
		expect.Equal(t, next+" is next", b.isIn(rediskey.Ready, next+fmt.Sprint(each-1)), true)
	}
	b.runAll(3 * each)
}

// A run that reaches its budget leaves the others unlooked at.
func TestReapStopsAtTheBudget(t *testing.T) {
	t.Parallel()
	b := newBench(t) // 50/s: 5 in a run
	b.leave("s", 1000, orphan)
	b.load("look")
	faults := &redistest.Faults{}
	b.rdb.AddHook(faults)
	expect.Equal(t, "recovered", b.reap(), 5)
	if n := faults.CountCommands(); n > 130 {
		t.Errorf("it took %d commands", n)
	}
	if n := faults.CountNamed("evalsha"); n > 10 {
		t.Errorf("it took %d scripts", n)
	}
}

// The recovery of those who died does not wait until each of those who live has
// been looked at, nor the other way round.
func TestReapLooksPastTheLiving(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const living = 300
	b.leave("living", living, func(b *bench, p redis.Pipeliner, m member) {
		orphan(b, p, m)
		p.Set(b.ctx, m.k.Sentinel(), "alive", time.Minute)
	})
	b.leave("orphan", 7, orphan)
	expect.Equal(t, "recovered", b.reap(), 5)
	expect.Equal(t, "then", b.reap(), 2)
	later := b.rdb.ZCount(b.ctx, rediskey.Owned, fmt.Sprint(time.Now().Add(30*time.Second).UnixMilli()), "+inf").Val()
	expect.Equal(t, "living, looked at again at their sentinel's end", later, living)
}

// The pace comes near the rate and never exceeds it by more than a burst.
func TestRecoveryPace(t *testing.T) {
	t.Parallel()
	const n, rate, burst = 300, 200.0, 20
	b := newBench(t, func(c *sq.Config) { c.RecoveryRate = rate })
	b.leave("s", n, orphan)
	began := time.Now()
	for recovered := 0; recovered < n; {
		got, pause, err := b.c.Reap(b.ctx)
		expect.OK(t, err)
		recovered += got
		if most := rate*time.Since(began).Seconds() + burst; float64(recovered) > most {
			t.Fatalf("%d were recovered, at most %.1f may be", recovered, most)
		}
		<-time.After(pause)
	}
	// The last burst is paid for, too.
	t.Logf("%.0f/s of %.0f/s", n/time.Since(began).Seconds(), rate)
}

// What a run takes is part of what its recoveries cost.
func TestRecoveryPaysForTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t) // 5 in 100 ms
	b.leave("s", 20, orphan)
	faults := &redistest.Faults{}
	b.rdb.AddHook(faults)
	faults.Delay(called("look"), 80*time.Millisecond)
	recovered, pause, err := b.c.Reap(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "recovered", recovered, 5)
	if pause > 25*time.Millisecond {
		t.Errorf("a run of more than 80 ms is followed by a pause of %s", pause)
	}
}

// Idle sessions cost the sweep a few commands in all; the one among them that
// nobody announced is found.
func TestSweepOfIdleSessions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const idle = 5000
	b.leave("s", idle, func(b *bench, p redis.Pipeliner, m member) {
		p.ZAdd(b.ctx, rediskey.Sessions, redis.Z{Score: 1, Member: m.name})
		p.SAdd(b.ctx, rediskey.AllQueues, rediskey.Queue(m.name))
	})
	faults := &redistest.Faults{}
	b.rdb.AddHook(faults)
	expect.Equal(t, "found", b.sweep(), 0)
	t.Logf("%d commands, %d of them EXISTS", faults.CountCommands(), faults.CountNamed("exists"))
	if n := faults.CountCommands(); n > 200 {
		t.Errorf("a sweep of %d idle sessions takes %d commands", idle, n)
	}
	b.rdb.LPush(b.ctx, rediskey.For("s4321").Pending(), rediskey.TaskID("s4321", "m"))
	expect.Equal(t, "found", b.sweep(), 1)
	expect.List(t, "ready", b.pop(), "s4321")
}

// On a Cluster no command may ask about two sessions.
func TestSweepOnCluster(t *testing.T) {
	t.Parallel()
	b := benchOn(t, redistest.StartCluster(t).Client())
	const n = 120 // at 50/s
	b.leave("s", n, unannounced)
	expect.Equal(t, "found", b.sweep(), n)
	expect.Equal(t, "ready at once", b.count(rediskey.Ready), 5)
	expect.Equal(t, "recovered", b.reap(), 5)
	_, err := b.c.Unregister(context.WithoutCancel(b.ctx))
	expect.OK(t, err)
	expect.Equal(t, "listed", b.rdb.SCard(b.ctx, rediskey.AllQueues).Val(), n)
}
