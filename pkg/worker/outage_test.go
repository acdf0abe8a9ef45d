package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// durable starts a server that keeps its data over a restart, with production's users.
func durable(t *testing.T) (*redistest.Server, *rig) {
	t.Helper()
	server := acl.Server(t)
	r := rigOn(t, acl.URL(t, server.URL(), acl.Worker), server.Client())
	r.client = actors.NewClient(acl.Open(t, server, acl.Sender))
	return server, r
}

// Redis goes away during a turn and comes back within the lease: the turn ends normally, and the
// worker continues by itself.
func TestRedisRestartsWithinTheLease(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]bool{"shut down": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, r := durable(t)
			s := newStage()
			r.worker(s, sentinelTTL(time.Minute))
			r.say("m1", "hello")
			a := s.next(t, "m1")
			r.say("m2", "behind")
			if kill {
				server.Kill()
			} else {
				server.Stop()
			}
			a.text("while it was away, ")
			a.reply("while it was away, it went on")
			server.Start()
			expect.Equal(t, "reply", r.ends("m1", session.StatusDone).Reply, "while it was away, it went on")
			s.next(t, "m2").reply("two")
			r.ends("m2", session.StatusDone)
			r.say("m3", "afterwards")
			s.next(t, "m3").reply("three")
			r.ends("m3", session.StatusDone)
			expect.List(t, "turns", r.starts(r.key), "m1", "m2", "m3")
			expect.Equal(t, "entries", len(r.transcript(r.key)), 6)
		})
	}
}

// An idle worker takes work again by itself after Redis was unreachable.
func TestIdleWorkerOutlivesARestart(t *testing.T) {
	t.Parallel()
	server, r := durable(t)
	w := r.worker(echo.New())
	r.say("m1", "hello")
	r.ends("m1", session.StatusDone)
	expect.Soon(t, "the worker to be idle", func() bool { return w.Status().Running == 0 })
	server.Stop()
	server.Start()
	r.say("m2", "on")
	r.ends("m2", session.StatusDone)
	// It receives signals again, too.
	r.say("m3", "sleep=1h x")
	expect.Soon(t, "the turn", func() bool { return len(r.started("m3")) == 1 })
	r.say("", "/stop")
	r.ends("m3", session.StatusStopped)
}

// The lease ends while Redis is unreachable: the turn is abandoned and redelivered, and its
// entries are written once.
func TestLeaseRunsOutWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, finished := range map[string]bool{"still running": false, "about to finish": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			r := rigOn(t, server.URL(), server.Client())
			s := newStage()
			ttl := expect.Lease(3 * time.Second)
			w := r.worker(s, sentinelTTL(ttl))
			r.say("m1", "hello")
			a := s.next(t, "m1")
			r.say("m2", "behind")
			server.Pause()
			paused := time.Now()
			if finished {
				a.reply("never seen")
			}
			if err := a.cause(t); !errors.Is(err, agent.ErrLeaseLost) {
				t.Errorf("the turn ended with %v", err)
			}
			expect.Soon(t, "the sentinel's end", func() bool { return time.Since(paused) > ttl+50*time.Millisecond })
			server.Resume()
			b := s.next(t, "m1")
			if b.Fence <= a.Fence {
				t.Errorf("fence %d after %d", b.Fence, a.Fence)
			}
			expect.Equal(t, "redelivered", b.Redelivered, true)
			expect.Equal(t, "attempt", b.Attempt, 1)
			expect.Equal(t, "history", len(b.History), 0)
			b.reply("one")
			s.next(t, "m2").reply("two")
			r.ends("m2", session.StatusDone)
			expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant one", "user behind", "assistant two")
			expect.Equal(t, "the turn with the reply", r.ends("m1", session.StatusDone).Turn, b.ID)
			expect.Soon(t, "the worker to be idle", func() bool { return w.Status().Running == 0 })
		})
	}
}

// An unsteady Redis is no death: the worker lives through each outage, so its message is not given
// up, its session is not suspended, and the agent's note names the cause.
func TestUnsteadyRedisIsNoDeath(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"limit 3": 3, "limit 1": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			r := rigOn(t, server.URL(), server.Client())
			s := newStage()
			const ttl = time.Second
			r.worker(s, sentinelTTL(ttl), with(func(o *worker.Config) { o.StuckLimit = limit }))
			r.say("m1", "hello")
			a := s.next(t, "m1")
			sid := a.TranscriptID
			for range 4 {
				server.Pause()
				paused := time.Now()
				if err := a.cause(t); !errors.Is(err, agent.ErrLeaseLost) {
					t.Errorf("the turn ended with %v", err)
				}
				expect.Soon(t, "the sentinel's end", func() bool { return time.Since(paused) > ttl+50*time.Millisecond })
				server.Resume()
				a = s.next(t, "m1")
				expect.Equal(t, "session id", a.TranscriptID, sid)
				// The claim may come before the worker's word. With limit 1 it would give the message up.
				if !strings.Contains(a.Note, "a lost lease") && (limit == 1 || !strings.Contains(a.Note, "or lost its connection to Redis")) {
					t.Errorf("note %q", a.Note)
				}
			}
			a.reply("one")
			expect.Equal(t, "reply", r.ends("m1", session.StatusDone).Reply, "one")
			r.say("m2", "on")
			s.next(t, "m2").reply("two")
			expect.Equal(t, "session id afterwards", r.ends("m2", session.StatusDone).TranscriptID, sid)
		})
	}
}

// The same with a process for a worker. A message that does kill its workers is given up, although
// Redis is unsteady between its deaths.
func TestUnsteadyRedisAndADeadlyMessage(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	r := rigOn(t, server.URL(), server.Client())
	const ttl = 2 * time.Second
	outage := func() {
		server.Pause()
		paused := time.Now()
		expect.Soon(t, "the sentinel's end", func() bool { return time.Since(paused) > ttl+100*time.Millisecond })
		server.Resume()
	}
	start := func(i int) *process { return r.process(fmt.Sprint("w", i), job{TTL: ttl}) }
	p := start(0)
	r.say("m1", "sleep=1h hello")
	for n := range 3 {
		expect.Soon(t, "a turn", func() bool { return len(r.started("m1")) == n+1 })
		outage()
	}
	expect.Soon(t, "a turn", func() bool { return len(r.started("m1")) == 4 })
	r.say("", "/stop")
	sid := r.ends("m1", session.StatusStopped).TranscriptID
	r.say("m2", "die")
	for i := 1; i <= 4; i++ {
		p.wait()
		if i == 4 {
			p = start(i)
			break
		}
		outage()
		p = start(i)
	}
	o := r.ends("m2", session.StatusFailed)
	expect.Equal(t, "session id", o.TranscriptID, sid)
	if !strings.Contains(o.Error, "its worker died in 3 turns in a row") {
		t.Errorf("error %q", o.Error)
	}
	p.end()
}

// Redis comes back between the lease's end and the sentinel's: the finish may still succeed.
// Either way the message has one reply.
func TestFinishAtTheLastMoment(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	r := rigOn(t, server.URL(), server.Client())
	s := newStage()
	r.worker(s, sentinelTTL(expect.Lease(time.Second)))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.say("m2", "behind")
	server.Pause()
	a.reply("one")
	_ = a.cause(t)
	server.Resume()
	done := make(chan bool, 1)
	go func() {
		defer close(done)
		for again := range s.acts {
			id := again.Messages[0].ID
			again.reply(map[string]string{"m1": "one", "m2": "two"}[id])
			if id == "m2" {
				return
			}
		}
	}()
	r.ends("m1", session.StatusDone)
	r.ends("m2", session.StatusDone)
	<-done
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant one", "user behind", "assistant two")
}

func TestSlowRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	f.Delay(redistest.Any, 40*time.Millisecond)
	r.worker(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		turn.Emit(agent.Event{Type: session.EventText, Text: "re: "})
		turn.Emit(agent.Event{Type: session.EventText, Text: turn.Text()})
		return agent.Result{}, nil
	}), faulty(&f), sentinelTTL(expect.Lease(time.Second)))
	for i := range 4 {
		for s := range 3 {
			r.send(fmt.Sprint(r.key, s), turnstile.Message{ID: fmt.Sprint(i), Text: fmt.Sprint(i)})
		}
	}
	for s := range 3 {
		key := fmt.Sprint(r.key, s)
		expect.Equal(t, "reply", r.outcomeIn(key, "3").Reply, "re: 3")
		expect.List(t, "turns", r.starts(key), "0", "1", "2", "3")
		expect.Equal(t, "entries", len(r.transcript(key)), 8)
	}
}

// renewalFaults makes renewals fail while it is set to, and counts them.
type renewalFaults struct {
	redistest.Faults
	failing atomic.Bool
	failed  atomic.Int32
}

func (f *renewalFaults) strike() {
	f.FailBefore(func(cmd redis.Cmder) bool {
		if !f.failing.Load() || !renewing(cmd) {
			return false
		}
		f.failed.Add(1)
		return true
	}, -1, errors.New("no such luck"))
}

// If renewals fail for a while, the turn continues. If they fail for too long, it is lost and runs
// again.
func TestRenewalsFail(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	r := newRig(t)
	var f renewalFaults
	f.strike()
	s := newStage()
	ttl := expect.Lease(9 * time.Second)
	r.worker(immediate{s.Run}, faulty(&f.Faults), sentinelTTL(ttl))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	f.failing.Store(true)
	expect.Soon(t, "two failures", func() bool { return f.failed.Load() >= 2 })
	f.failing.Store(false)
	token := r.token()
	expect.Soon(t, "a renewal", func() bool { return r.info().LeaseLeft > ttl*8/10 })
	expect.Equal(t, "sentinel", r.token(), token)
	if a.ctx.Err() != nil {
		t.Fatalf("the turn ended: %v", context.Cause(a.ctx))
	}
	f.failing.Store(true)
	if err := a.cause(t); !errors.Is(err, agent.ErrLeaseLost) {
		t.Errorf("the turn ended with %v", err)
	}
	f.failing.Store(false)
	b := s.next(t, "m1")
	expect.Equal(t, "redelivered", b.Redelivered, true)
	b.reply("ok")
	r.ends("m1", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant ok")
}

// The log reports failing renewals once, however many sessions there are and however long it
// takes, and once that they succeed again.
func TestFailingRenewalsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	r := newRig(t)
	var f renewalFaults
	f.strike()
	s, j := newStage(), newJournal("renewals")
	r.worker(immediate{s.Run}, faulty(&f.Faults), sentinelTTL(expect.Lease(3*time.Second)), with(func(o *worker.Config) { o.Logger = slog.New(j) }))
	var acts []*act
	for _, name := range []string{"one", "two", "three"} {
		r.send(r.key+"-"+name, turnstile.Message{ID: name, Text: "hello"})
		acts = append(acts, s.next(t, name))
	}
	for range 2 {
		f.failed.Store(0)
		f.failing.Store(true)
		j.next(t, "renewals fail, trying again", map[string]string{"sessions": "3", "error": "no such luck"})
		expect.Soon(t, "more failures", func() bool { return f.failed.Load() >= 3 })
		f.failing.Store(false)
		j.next(t, "renewals succeed again", nil)
	}
	for _, a := range acts {
		a.reply("ok")
	}
	if n := len(j.lines); n > 0 {
		t.Errorf("%d more lines", n)
	}
}

// A finish with a lost reply is sent again, once or several times.
func TestFinishIsSentTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	f.RunTwice(finishing, -1)
	for i := range 5 {
		r.say(fmt.Sprint(i), "hello")
	}
	r.worker(echo.New(), faulty(&f), with(func(o *worker.Config) { o.ShareTurns(2) }))
	r.ends("4", session.StatusDone)
	expect.Equal(t, "entries", len(r.transcript(r.key)), 10)
	expect.List(t, "turns", r.starts(r.key), "0", "1", "2", "3", "4")
	ends := 0
	for _, e := range r.events(r.key) {
		if e.Type == session.EventTurnEnded {
			ends++
		}
	}
	expect.Equal(t, "ends", ends, 5)
	expect.Equal(t, "processed", r.rdb.Get(r.ctx, r.k.Processed()).Val(), "5")
}

// The reply is lost for the Redis client, too: the worker itself sends again.
func TestFinishReplyIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	f.LoseReply(finishing, 3)
	for i := range 3 {
		r.say(fmt.Sprint(i), "hello")
	}
	r.worker(echo.New(), faulty(&f))
	r.ends("2", session.StatusDone)
	expect.Equal(t, "entries", len(r.transcript(r.key)), 6)
	expect.List(t, "turns", r.starts(r.key), "0", "1", "2")
	expect.Soon(t, "the session to be free", func() bool { return r.token() == "" })
}

// A requeue with a lost reply puts the message back once.
func TestRequeueReplyIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	f.LoseReply(parking, 2)
	r.worker(echo.New(), faulty(&f))
	r.say("m1", "fail=retry:1 hello")
	r.say("m2", "behind")
	r.ends("m1", session.StatusDone)
	r.ends("m2", session.StatusDone)
	expect.List(t, "turns", r.starts(r.key), "m1", "m1", "m2")
	expect.Equal(t, "entries", len(r.transcript(r.key)), 4)
}

// A Redis that hangs does not delay the interrupts at the end of a drain's timeout.
func TestDrainWhileRedisHangs(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	r := rigOn(t, server.URL(), server.Client())
	one, two := newStage(), newStage()
	w := r.worker(one, sentinelTTL(time.Minute), drainTimeout(50*time.Millisecond))
	r.say("m1", "hello")
	a := one.next(t, "m1")
	server.Pause()
	began := time.Now()
	drained := drain(w)
	err := a.cause(t)
	took := time.Since(began)
	server.Resume()
	if !strings.Contains(err.Error(), string(worker.ReasonShutdown)) || took > expect.Lease(2500*time.Millisecond) {
		t.Errorf("after %s the turn ended with %v", took, err)
	}
	expect.Received(t, "the end of the drain", drained)
	r.worker(two)
	b := two.next(t, "m1")
	expect.Equal(t, "redelivered", b.Redelivered, true)
	if !strings.Contains(b.Note, "gateway shutdown") {
		t.Errorf("note %q", b.Note)
	}
	b.reply("ok")
	r.ends("m1", session.StatusDone)
}
