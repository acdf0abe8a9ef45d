package worker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A claim with a lost reply is taken back, even if another session of the same batch is broken.
func TestLostClaimBesideABrokenSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	broken := r.key + ".broken"
	expect.OK(t, r.rdb.Set(r.ctx, rediskey.For(broken).Pending(), "no list", 0).Err())
	r.say("m1", "hello")
	// Both claims take the full path, and each is sent alone, as after Redis forgot the
	// script.
	expect.OK(t, r.rdb.HSet(r.ctx, r.k.Run(), "special", "1").Err())
	expect.OK(t, r.rdb.ZAdd(r.ctx, rediskey.Ready, redis.Z{Score: 1, Member: broken}).Err())
	var f redistest.Faults
	claims := func(command string) redistest.Match {
		return func(cmd redis.Cmder) bool {
			args := cmd.Args()
			return cmd.Name() == command && fmt.Sprint(args[2]) == fmt.Sprint(len(scripts.ClaimKeys(scripts.Keys{}))) && slices.Contains(args, any(r.k.Sentinel()))
		}
	}
	f.FailBefore(claims("evalsha"), 1, redistest.ReplyError("NOSCRIPT No matching script"))
	f.LoseReply(claims("eval"), 1)
	r.worker(echo.New(), faulty(&f), sentinelTTL(time.Minute))
	r.ends("m1", session.StatusDone)
}

// A worker takes back a claim with a lost reply: no turn counts as interrupted, and the session
// need not wait for its sentinel's end.
func TestClaimWithoutAReplyIsTakenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	f.LoseReply(claiming, 3)
	r.worker(echo.New(), faulty(&f), sentinelTTL(time.Hour))
	r.say("m1", "hello")
	r.ends("m1", session.StatusDone)
	expect.Equal(t, "turns", len(r.started("m1")), 1)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant echo: hello")
	record, err := resume.Read(r.ctx, r.rdb, r.key)
	expect.OK(t, err)
	expect.Equal(t, "interruptions", record.Interruptions, 0)
}

// A worker that drains after it lost a lease still reports that it lives, if Redis is back in time.
func TestDrainTellsThatTheWorkerLives(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	r := rigOn(t, server.URL(), server.Client())
	one, two := newStage(), newStage()
	var f redistest.Faults
	f.FailBefore(surviving, 4, redistest.ErrLostReply) // Redis is away for 150 ms more
	const ttl = time.Second
	limit := with(func(o *worker.Config) { o.StuckLimit = 1 })
	w := r.worker(one, sentinelTTL(ttl), limit, faulty(&f), drainTimeout(time.Minute))
	r.say("m1", "hello")
	a := one.next(t, "m1")
	server.Pause()
	paused := time.Now()
	drained := drain(w)
	if err := a.cause(t); !errors.Is(err, agent.ErrLeaseLost) {
		t.Errorf("the turn ended with %v", err)
	}
	expect.Soon(t, "the sentinel's end", func() bool { return time.Since(paused) > ttl+50*time.Millisecond })
	server.Resume()
	expect.Received(t, "the end of the drain", drained)
	r.worker(two, sentinelTTL(ttl), limit)
	b := two.next(t, "m1")
	if !strings.Contains(b.Note, "a lost lease") {
		t.Errorf("note %q", b.Note)
	}
	b.reply("ok")
	r.ends("m1", session.StatusDone)
}
