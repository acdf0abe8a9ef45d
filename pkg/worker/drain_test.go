package worker_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"turnstile"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func drainTimeout(d time.Duration) change {
	return with(func(o *worker.Config) { o.DrainTimeout = cmp.Or(d, noWait) })
}

// Another worker takes a turn that does not end in time at once.
func TestDrainHandsOver(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"no timeout": 0, "100ms": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			one, two := newStage(), newStage()
			w := r.worker(one, drainTimeout(timeout))
			r.say("m1", "hello")
			a := one.next(t, "m1")
			r.say("m2", "behind")
			r.worker(two)
			drained := drain(w)
			if err := a.cause(t); !strings.Contains(err.Error(), string(worker.ReasonShutdown)) {
				t.Errorf("the turn ended with %v", err)
			}
			b := two.next(t, "m1")
			expect.Received(t, "the end of the drain", drained)
			expect.Equal(t, "redelivered", b.Redelivered, true)
			expect.Equal(t, "attempt", b.Attempt, 1)
			expect.Equal(t, "session id", b.TranscriptID, a.TranscriptID)
			if b.Fence <= a.Fence {
				t.Errorf("fence %d after %d", b.Fence, a.Fence)
			}
			events := r.events(r.key)
			var requeued, again time.Time
			for _, e := range events {
				switch e.Type {
				case session.EventTurnRequeued:
					requeued = e.At
				case session.EventTurnStarted:
					again = e.At
				}
			}
			if took := again.Sub(requeued); requeued.IsZero() || took > expect.Lease(time.Second) {
				t.Errorf("the next worker took the turn %s after the requeue", took)
			}
			b.reply("one")
			two.next(t, "m2").reply("two")
			r.ends("m2", session.StatusDone)
			expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant one", "user behind", "assistant two")
			one.empty(t)
		})
	}
}

func TestDrainLetsTurnsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s, drainTimeout(time.Minute))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.say("m2", "behind")
	drained := drain(w)
	r.awaitEvent("the notice", func(e session.Event) bool { return e.Type == session.EventNotice })
	a.reply("ok")
	expect.Received(t, "the end of the drain", drained)
	expect.Equal(t, "reply", r.ends("m1", session.StatusDone).Reply, "ok")
	s.empty(t)
	r.free("after the drain")
	expect.Equal(t, "waiting messages", r.info().Waiting, 1)
	for _, e := range r.events(r.key) {
		if e.Type == session.EventTurnRequeued {
			t.Error("the turn was requeued")
		}
	}
	resume, err := resume.Read(r.ctx, r.rdb, r.key)
	expect.OK(t, err)
	expect.Equal(t, "a mark", resume.Pending, false)
}

func TestDrainWithoutLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s, drainTimeout(session.NoLimit))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	drained := drain(w)
	r.awaitEvent("the notice", func(e session.Event) bool { return e.Type == session.EventNotice })
	expect.Equal(t, "time left", w.Status().Left, time.Duration(session.NoLimit))
	a.reply("ok")
	expect.Received(t, "the end of the drain", drained)
	r.ends("m1", session.StatusDone)
}

func TestDrainNotifiesEachSessionOnce(t *testing.T) {
	t.Parallel()
	for reason, want := range map[worker.Reason]string{worker.ReasonShutdown: "shutting down", worker.ReasonRestart: "restarting"} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newStage()
			w := r.worker(s, drainTimeout(time.Minute))
			keys := []string{r.key + "-1", r.key + "-2", r.key + "-3"}
			acts := make([]*act, 0, len(keys))
			for _, key := range keys {
				r.send(key, turnstile.Message{ID: "m1", Text: "hello"})
				acts = append(acts, s.next(t, "m1"))
			}
			done := make(chan bool, 2)
			for range 2 { // the second call waits for the first
				go func() {
					w.Drain(context.Background(), reason)
					done <- true
				}()
			}
			notices := func(key string) (texts []string) {
				for _, e := range r.events(key) {
					if e.Type == session.EventNotice {
						texts = append(texts, e.Text)
					}
				}
				return texts
			}
			for _, key := range keys {
				expect.Soon(t, "the notice", func() bool { return len(notices(key)) > 0 })
			}
			if len(done) > 0 {
				t.Error("Drain returned while turns ran")
			}
			for _, a := range acts {
				a.reply("ok")
			}
			expect.Received(t, "the end of the drain", done)
			expect.Received(t, "the end of the second drain", done)
			for _, key := range keys {
				texts := notices(key)
				if len(texts) != 1 || !strings.Contains(texts[0], want) || !strings.Contains(texts[0], "try to resume") {
					t.Errorf("notices to %s: %q", key, texts)
				}
			}
		})
	}
}

// Where Redis ends with the worker, the notice promises no other worker.
func TestDrainOfAnEphemeralWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s, drainTimeout(time.Minute), with(func(o *worker.Config) { o.Ephemeral = true }))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	drained := drain(w)
	notice := r.awaitEvent("the notice", func(e session.Event) bool { return e.Type == session.EventNotice }).Text
	expect.Equal(t, "notice", notice, "This worker is shutting down, and nothing is kept. If the current task does not end in time it will be interrupted.")
	a.reply("ok")
	expect.Received(t, "the end of the drain", drained)
}

// The notice also reaches a turn that is still starting when the drain begins.
func TestDrainNotifiesAStartingTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	gate := f.GateReply(claiming)
	s := newStage()
	w := r.worker(s, faulty(&f), drainTimeout(time.Minute))
	r.say("m1", "hello")
	expect.Received(t, "the claim", gate.Arrived())
	drained := drain(w)
	expect.Soon(t, "the drain", w.Draining)
	gate.Release()
	s.next(t, "m1").reply("ok")
	expect.Received(t, "the end of the drain", drained)
	n := 0
	for _, e := range r.events(r.key) {
		if e.Type == session.EventNotice {
			n++
		}
	}
	expect.Equal(t, "notices", n, 1)
}

func TestDrainBeforeStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.idle(echo.New())
	for range 2 {
		expect.Received(t, "the end of the drain", drain(w))
	}
	if err := w.Start(r.ctx); err == nil {
		t.Error("a drained worker was started")
	}
	r.say("m1", "hello")
	r.free("without a worker")
}

// After a failed Start nothing runs, without a Stop: TestMain looks for goroutines.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer rdb.Close()
	w, err := worker.New(rdb, echo.New(), worker.Config{Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	if err := w.Run(t.Context()); err == nil {
		t.Error("a worker without Redis was started")
	}
	expect.Equal(t, "draining", w.Status().Draining, true)
	expect.OK(t, w.Stop(t.Context()))
}

func TestStartTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.worker(echo.New())
	if err := w.Start(r.ctx); err == nil {
		t.Error("a worker was started twice")
	}
	r.say("m1", "hello")
	r.ends("m1", session.StatusDone)
}

// A draining worker returns the sessions that it pops, and pops no more.
func TestDrainPopsNoMore(t *testing.T) {
	t.Parallel()
	for i := range 6 { // a second pop would be seen only by chance
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f redistest.Faults
			gate := f.GateReply(redistest.Named("bzpopmin"))
			s := newStage()
			w := r.worker(s, faulty(&f), drainTimeout(0))
			expect.Soon(t, "the pop", func() bool { return f.CountNamed("bzpopmin") == 1 })
			r.say("m1", "hello")
			expect.Received(t, "the pop's reply", gate.Arrived())
			drained := drain(w)
			expect.Soon(t, "the drain", w.Draining)
			gate.Release()
			expect.Received(t, "the end of the drain", drained)
			expect.Equal(t, "pops", f.CountNamed("zpopmin"), 1)
			s.empty(t)
			r.free("after the drain")
			r.worker(echo.New())
			r.ends("m1", session.StatusDone)
			expect.List(t, "turns", r.starts(r.key), "m1")
		})
	}
}

// A second signal ends the wait for the turns early.
func TestDrainCutShort(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s, drainTimeout(time.Hour))
	r.say("m1", "hello")
	s.next(t, "m1")
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan bool, 1)
	go func() {
		w.Drain(ctx, worker.ReasonRestart)
		done <- true
	}()
	r.awaitEvent("the notice", func(e session.Event) bool { return e.Type == session.EventNotice })
	cancel()
	expect.Received(t, "the end of the drain", done)
	e := r.awaitEvent("a requeued turn", func(e session.Event) bool { return e.Type == session.EventTurnRequeued })
	expect.Equal(t, "reason", e.Reason, string(worker.ReasonRestart))
}

// However often a turn is drained, it spends no attempt. An agent that fails for another reason
// while it is interrupted is redelivered, too.
func TestDrainSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stubborn := func(up chan<- *agent.Turn) agent.Func {
		return func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			up <- turn
			<-ctx.Done()
			return agent.Result{}, errors.New("killed by signal: interrupt")
		}
	}
	r.say("m1", "hello")
	for i := range 4 {
		up := make(chan *agent.Turn, 1)
		w := r.worker(stubborn(up), drainTimeout(0), with(func(o *worker.Config) { o.MaxAttempts = 1 }))
		turn := expect.Received(t, "the turn", up)
		expect.Equal(t, "attempt", turn.Attempt, 1)
		expect.Equal(t, "redelivered", turn.Redelivered, i > 0)
		expect.Received(t, "the end of the drain", drain(w))
	}
	r.worker(echo.New())
	r.ends("m1", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant echo: hello")
}

// A drain may begin while the worker is starting. Whichever comes first, nothing of the worker is
// left, its asynq.Server included.
func TestDrainBesideStart(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			w := r.idle(newStage(), with(func(o *worker.Config) { o.Jobs(true, 0) }))
			started := make(chan error, 1)
			go func() { started <- w.Start(r.ctx) }()
			for range i {
				runtime.Gosched()
			}
			w.Drain(r.ctx, worker.ReasonShutdown)
			_ = expect.Received(t, "the end of Start", started)
			servers, err := asynq.NewInspectorFromRedisClient(r.rdb).Servers()
			expect.OK(t, err)
			expect.Equal(t, "asynq servers that are left", len(servers), 0)
		})
	}
}
