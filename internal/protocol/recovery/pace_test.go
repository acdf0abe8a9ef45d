package recovery_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// crowd is how many sessions an outage leaves.
const crowd = 10_000

// member is one session of a crowd, and its message.
type member struct {
	name string
	k    rediskey.Session
	task string
}

// left writes the keys of a session that an outage leaves in addition to its task.
type left func(b *actors.Bench, p redis.Pipeliner, m member)

// orphan: its worker died in mid-turn.
func orphan(b *actors.Bench, p redis.Pipeliner, m member) {
	p.LPush(b.Ctx, m.k.Active(), m.task)
	p.HSet(b.Ctx, m.k.Run(), "token", "dead", "fence", "1", "phase", "running", "ids", fmt.Sprintf("[%q]", m.task), "sid", "s")
	p.ZAdd(b.Ctx, rediskey.Owned, redis.Z{Score: 1, Member: m.name})
}

// overdue: its delayed message became due a minute ago, and there was no worker.
func overdue(b *actors.Bench, p redis.Pipeliner, m member) {
	dueAt(b, p, m, time.Now().Add(-time.Minute))
}

func dueAt(b *actors.Bench, p redis.Pipeliner, m member, at time.Time) {
	p.ZAdd(b.Ctx, m.k.Scheduled(), redis.Z{Score: float64(at.Unix()), Member: m.task})
	p.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: float64(at.UnixMilli()), Member: m.name})
}

// lostWakeUp: its sender was a plain asynq.Client, or an index was lost.
func lostWakeUp(b *actors.Bench, p redis.Pipeliner, m member) {
	p.LPush(b.Ctx, m.k.Pending(), m.task)
	p.SAdd(b.Ctx, rediskey.AllQueues, rediskey.Queue(m.name))
}

// leave makes n sessions of the same kind, in few round trips.
func leave(b *actors.Bench, prefix string, n int, l left) (sessions []string) {
	b.Helper()
	b.Enqueue("template")
	msg, err := b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task("template")), "msg").Result()
	expect.OK(b, err)
	expect.OK(b, b.Inspector().DeleteQueue(rediskey.Queue(actors.Key), true))
	const batch = 1000
	for len(sessions) < n {
		_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
			for range min(batch, n-len(sessions)) {
				name := fmt.Sprint(prefix, len(sessions))
				m := member{name, rediskey.For(name), rediskey.TaskID(name, "m")}
				p.HSet(b.Ctx, m.k.Task(m.task), "msg", msg, "state", "pending")
				l(b, p, m)
				sessions = append(sessions, name)
			}
			return nil
		})
		expect.OK(b, err)
	}
	return sessions
}

func count(b *actors.Bench, index string) int {
	b.Helper()
	n, err := b.Redis.ZCard(b.Ctx, index).Result()
	expect.OK(b, err)
	return int(n)
}

// recoverAll runs reap until want sessions are ready: at most burst in a run, and all of them stay in
// the owned index.
func recoverAll(b *actors.Bench, want, burst int) {
	b.Helper()
	for ready := count(b, rediskey.Ready); ready < want; {
		n := b.Reap()
		now := count(b, rediskey.Ready)
		if n == 0 || n > burst || now-ready != n {
			b.Fatalf("a run recovered %d sessions, %d more are ready; allowed are %d", n, now-ready, burst)
		}
		if owned := count(b, rediskey.Owned); owned != want {
			b.Fatalf("%d of %d sessions are in the owned index", owned, want)
		}
		ready = now
	}
	expect.Equal(b, "recovered when all are", b.Reap(), 0)
}

// runAll claims every ready session: want of them, with their messages.
func runAll(b *actors.Bench, want int) {
	b.Helper()
	ran := map[string]bool{}
	for sessions := b.Pop(); len(sessions) > 0; sessions = b.Pop() {
		claims, err := b.Worker.Claim(b.Ctx, sessions)
		expect.OK(b, err)
		for _, h := range claims {
			if turn := h.Turn(); turn.Err == nil && turn.Message.ID == "m" {
				ran[turn.Session] = true
			}
		}
	}
	expect.Equal(b, "sessions that run", len(ran), want)
}

// crowdRate sets a rate with a burst of a twentieth of a crowd.
func crowdRate(c *protocol.Config) { c.RecoveryRate = 10 * crowd / 20 }

const crowdBurst = crowd / 20

func TestB80_OrphansAtABoundedPace(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	redistest.Real(t) // the embedded one is too slow for thousands of sessions
	b := actors.NewBench(t, crowdRate)
	leave(b, "s", crowd, orphan)
	recoverAll(b, crowd, crowdBurst)
	runAll(b, crowd)
}

// A session that is due on time does not wait for overdue ones.
func TestB80_OverdueAtABoundedPace(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	redistest.Real(t) // the embedded one is too slow for thousands of sessions
	b := actors.NewBench(t, crowdRate)
	leave(b, "s", crowd, overdue)
	const onTime = 10
	leave(b, "punctual", onTime, func(b *actors.Bench, p redis.Pipeliner, m member) { dueAt(b, p, m, time.Now()) })
	runs := 0
	for pause := time.Duration(0); pause == 0; runs++ {
		var err error
		pause, err = b.Worker.Due(b.Ctx)
		expect.OK(t, err)
	}
	if runs > crowd/1000+1 {
		t.Errorf("those on time had to wait for %d runs", runs)
	}
	expect.Equal(t, "ready at once", count(b, rediskey.Ready), onTime)
	expect.Equal(t, "of them on time", b.IsIn(rediskey.Ready, "punctual0"), true)
	expect.Equal(t, "left in due", count(b, rediskey.Due), 0)
	recoverAll(b, crowd+onTime, crowdBurst)
	runAll(b, crowd+onTime)
}

// All senders were plain asynq.Clients, or Redis was restored without its indexes.
func TestB80_LostWakeUpsAtABoundedPace(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	b := actors.NewBench(t, crowdRate)
	leave(b, "s", crowd, lostWakeUp)
	expect.Equal(t, "found", b.Sweep(), crowd)
	expect.Equal(t, "ready at once", count(b, rediskey.Ready), crowdBurst)
	expect.Equal(t, "found again while they wait", b.Sweep(), 0)
	expect.Equal(t, "ready", count(b, rediskey.Ready), crowdBurst)
	recoverAll(b, crowd, crowdBurst)
	runAll(b, crowd)
}

// All kinds share one pace, and those that were overdue first come first.
func TestB80_AllKindsShareThePace(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.RecoveryRate = 100 })
	const each = 40
	leave(b, "plain", each, lostWakeUp)
	leave(b, "orphan", each, orphan)
	leave(b, "overdue", each, overdue)
	b.Sweep()
	b.Due()
	const burst = 10
	expect.Equal(t, "ready at once", count(b, rediskey.Ready), burst)
	for _, next := range []string{"orphan", "overdue", "plain"} {
		for range each / burst {
			if next == "plain" && count(b, rediskey.Ready) == 3*each {
				break // that is the sweep's own
			}
			expect.Equal(t, "recovered", b.Reap(), burst)
		}
		expect.Equal(t, next+" is next", b.IsIn(rediskey.Ready, next+fmt.Sprint(each-1)), true)
	}
	runAll(b, 3*each)
}

// The pace comes near the rate and never exceeds it by more than a burst.
func TestRecoveryPace(t *testing.T) {
	t.Parallel()
	const n, rate, burst = 300, 200.0, 20
	b := actors.NewBench(t, func(c *protocol.Config) { c.RecoveryRate = rate })
	leave(b, "s", n, orphan)
	began := time.Now()
	for recovered := 0; recovered < n; {
		got, pause, err := b.Worker.Reap(b.Ctx)
		expect.OK(t, err)
		recovered += got
		if most := rate*time.Since(began).Seconds() + burst; float64(recovered) > most {
			t.Fatalf("%d were recovered, at most %.1f may be", recovered, most)
		}
		<-time.After(pause)
	}
	// The last burst counts too.
	t.Logf("%.0f/s of %.0f/s", n/time.Since(began).Seconds(), rate)
}

// The time of a run counts towards the pace of its recoveries.
func TestRecoveryPaysForTheRun(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t) // 5 in 100 ms
	leave(b, "s", 20, orphan)
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	faults.Delay(actors.Script("look"), 80*time.Millisecond)
	recovered, pause, err := b.Worker.Reap(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "recovered", recovered, 5)
	if pause > 25*time.Millisecond {
		t.Errorf("a run of more than 80 ms is followed by a pause of %s", pause)
	}
}

// A slow sweep is followed by a pause of four times its length, so sweeps take at most a fifth of the time.
func TestPauseAfterASlowSweep(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Enqueue("m")
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	const slow, asks = 200 * time.Millisecond, 3 // for any key, for reasons, for deliveries
	faults.Delay(redistest.Named("exists"), slow)
	_, pause, err := b.Worker.Sweep(b.Ctx, 2*time.Second)
	expect.OK(t, err)
	if pause < 4*asks*slow {
		t.Errorf("a sweep that asks %d times or more, each for %s, is followed by a pause of %s", asks, slow, pause)
	}
	if left := b.Redis.PTTL(b.Ctx, rediskey.Timer("sweep")).Val(); left > pause || left < pause/2 {
		t.Errorf("the next sweep is in %s, want %s", left, pause)
	}
}

// A sweep that Redis kept waiting is followed by no longer pause than others.
func TestPauseAfterAStall(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Enqueue("m")
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	faults.Delay(redistest.Named("zscan"), 300*time.Millisecond)
	faults.FailBefore(redistest.Named("exists"), 1, errors.New("away"))
	_, pause, err := b.Worker.Sweep(b.Ctx, time.Second)
	if err == nil || pause > time.Second {
		t.Errorf("a pause of %s after %v", pause, err)
	}
}

// A batch of sessions counts for a second at most.
func TestPauseAfterAStalledBatch(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: 1, Member: "idle"}).Err())
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	faults.Delay(redistest.Named("zmscore"), 1500*time.Millisecond)
	_, pause, err := b.Worker.Sweep(b.Ctx, 4*time.Second)
	expect.OK(t, err)
	if pause < 4*time.Second || pause > 5*time.Second {
		t.Errorf("a batch of 1.5 s is followed by a pause of %s, want 4 s", pause)
	}
}

// The longer the line, the later one of its sessions is checked again, until its owner renews the lease.
func TestReapLeavesALongLineAlone(t *testing.T) {
	t.Parallel()
	redistest.Real(t) // the embedded one is too slow for so many sessions
	b := actors.NewBench(t, func(c *protocol.Config) { c.SentinelTTL = 15 * time.Second })
	b.Say("m")
	line := make([]redis.Z, 100_000)
	for i := range line {
		line[i] = redis.Z{Score: float64(i + 1), Member: fmt.Sprint("s", i)}
	}
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Ready, line...).Err())
	looked := func() (in time.Duration) {
		t.Helper()
		now, err := b.Redis.Time(b.Ctx).Result()
		expect.OK(t, err)
		at, err := b.Redis.ZScore(b.Ctx, rediskey.Owned, actors.Key).Result()
		expect.OK(t, err)
		return time.UnixMilli(int64(at)).Sub(now)
	}
	b.Overdue(rediskey.Owned)
	b.Reap()
	if in := looked(); in < 19*time.Second {
		t.Errorf("a session in a line of 100,000 is checked again in %s, want 20 s", in)
	}
	claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
	expect.OK(t, err)
	for _, r := range b.Worker.Renew(b.Ctx, claims) {
		expect.OK(t, r.Err)
	}
	if in := looked(); in > 15*time.Second {
		t.Errorf("a session with a lease of 15 s is checked again in %s", in)
	}
}
