package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// started returns when a message's turns began, by Redis' clock.
func (r *rig) started(id string) (at []time.Time) {
	r.Helper()
	for _, e := range r.events(r.key) {
		if e.Type == session.EventTurnStarted && e.Messages[0] == id {
			at = append(at, e.At)
		}
	}
	return at
}

func TestCrashIsRecoveredWithinTheTTL(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]time.Duration{"2s": 2 * time.Second, "3s": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ttl := expect.Lease(idle)
			r := newRig(t)
			one := r.process("one", job{TTL: ttl})
			r.say("m1", "sleep=900ms hello")
			r.say("m2", "behind")
			expect.Soon(t, "the first turn", func() bool { return len(r.started("m1")) == 1 })
			one.kill()
			r.process("two", heir)
			killed := time.Now() // there is no other worker yet that could recover the session
			r.ends("m1", session.StatusDone)
			r.ends("m2", session.StatusDone)
			expect.List(t, "turns", r.starts(r.key), "m1", "m1", "m2")
			took := r.started("m1")[1].Sub(killed)
			t.Logf("the message was started again %s after kill -9, the TTL being %s", took, ttl)
			if took > ttl+expect.Lease(3*time.Second) {
				t.Errorf("recovery took %s, the TTL is %s", took, ttl)
			}
			expect.List(t, "transcript", r.transcript(r.key), "user sleep=900ms hello", "assistant echo: hello", "user behind", "assistant echo: behind")
		})
	}
}

// A message that kills its worker each time becomes a dead letter.
func TestDeadlyMessageIsArchived(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	start := func(i int) *process { return r.process(fmt.Sprint("w", i), job{TTL: expect.Lease(5 * time.Second)}) }
	p := start(0)
	r.say("m0", "hello")
	old := r.ends("m0", session.StatusDone).TranscriptID
	r.say("m1", "die")
	r.say("m2", "on")
	// The first death does not count: the worker had not renewed, so the reply to its claim may
	// have been lost. At the later ones the worker renews first.
	for i := 1; i <= 4; i++ {
		p.wait()
		// The start of the last turn is published by the claim that finds it, or by its worker if
		// that died slowly.
		if starts := len(r.started("m1")); starts != i-1 && starts != i {
			t.Errorf("%d turns of the deadly message were started after death %d", starts, i)
		}
		p = start(i)
	}
	o := r.ends("m1", session.StatusFailed)
	if !strings.Contains(o.Error, "its worker died in 3 turns in a row") {
		t.Errorf("error %q", o.Error)
	}
	r.archivedAs("m1")
	next := r.ends("m2", session.StatusDone)
	if next.TranscriptID == old {
		t.Error("the session was not suspended: the next message has the old session id")
	}
	expect.Equal(t, "runs of the deadly message", len(r.started("m1")), 5) // the last one only ended it
	expect.List(t, "the new transcript", r.transcript(r.key), "user on", "assistant echo: on")
	entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), old)
	expect.OK(t, err)
	expect.Equal(t, "entries of the old transcript", len(entries), 3) // also the words of the deadly message
	r.say("m3", "and on")
	expect.Equal(t, "session id of the message after", r.ends("m3", session.StatusDone).TranscriptID, next.TranscriptID)
	p.end()
}

// sessionDump is everything under the session's hash tag. A hash is written by its sorted fields,
// because a read may change their order.
func (r *rig) sessionDump() string {
	r.Helper()
	ctx := context.WithoutCancel(r.ctx)
	names := r.rdb.Keys(ctx, "*{session:"+r.key+"}*").Val()
	sort.Strings(names)
	var out strings.Builder
	for _, name := range names {
		if r.rdb.Type(ctx, name).Val() == "hash" {
			fmt.Fprintf(&out, "%s %q\n", name, r.rdb.HGetAll(ctx, name).Val())
			continue
		}
		dump, err := r.rdb.Dump(ctx, name).Result()
		expect.OK(r, err)
		fmt.Fprintf(&out, "%s %q\n", name, dump)
	}
	return out.String()
}

// A worker that was stopped past its TTL writes nothing when it continues, wherever it stopped:
// in a sleep of its agent, in a stream, before its finish.
func TestStoppedWorkerWritesNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"sleep":  "sleep=2s hello",
		"stream": "stream=6 tick=300ms hello",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			ttl := expect.Lease(2 * time.Second) // the other worker needs this long to take over
			one := r.process("one", job{TTL: ttl})
			r.say("m1", text)
			r.say("m2", "behind")
			expect.Soon(t, "the first turn", func() bool { return len(r.started("m1")) == 1 })
			one.stop()
			r.process("two", heir)
			r.ends("m1", session.StatusDone)
			r.ends("m2", session.StatusDone)
			expect.Soon(t, "the session to be free", func() bool { return r.token() == "" })
			before := r.sessionDump()
			one.signal(syscall.SIGCONT)
			expect.Soon(t, "the stopped worker to notice", func() bool { return strings.Contains(one.log.String(), "status=lost") })
			if after := r.sessionDump(); after != before {
				t.Errorf("the stopped worker wrote:\nbefore\n%s\nafter\n%s", before, after)
			}
			expect.List(t, "turns", r.starts(r.key), "m1", "m1", "m2")
			expect.Equal(t, "entries", len(r.transcript(r.key)), 4)

			// It continues to work.
			r.say("m3", "sleep=50ms on")
			r.ends("m3", session.StatusDone)
			one.end()
			if strings.Contains(one.log.String(), "ERROR") {
				t.Errorf("the stopped worker said %s", one.log.String())
			}
		})
	}
}

// Ten follow-ups survive the end of the worker with the running turn.
func TestB79_FollowUpsSurvive(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *process){
		"SIGTERM": func(p *process) { p.end() },
		"SIGKILL": func(p *process) { p.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			one := r.process("one", job{TTL: expect.Lease(3 * time.Second), Drain: 100 * time.Millisecond})
			r.say("m0", "linger")
			expect.Soon(t, "the turn", func() bool { return len(r.started("m0")) == 1 })
			r.awaitJournal("look")
			want := []string{"m0", "m0"}
			for i := 1; i <= 10; i++ {
				id := fmt.Sprint("m", i)
				told := r.send(r.key, turnstile.Message{ID: id, Text: "follow-up " + id})
				expect.Equal(t, "status", told.Status, receipt.Queued)
				expect.Equal(t, "position", told.Position, i+1)
				want = append(want, id)
			}
			end(one)
			expect.Equal(t, "waiting messages", r.info().Waiting+int(r.rdb.LLen(r.ctx, r.k.Active()).Val()), 11)
			r.process("two", heir)
			for i := range 11 {
				r.ends(fmt.Sprint("m", i), session.StatusDone)
			}
			expect.List(t, "turns", r.starts(r.key), want...)
			expect.Equal(t, "entries", len(r.transcript(r.key)), 23) // with the tool of the first
		})
	}
}

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
	f.FailBefore(surviving, 1, redistest.ErrLostReply) // Redis is away for a moment more
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
