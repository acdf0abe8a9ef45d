package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"turnstile/internal/program/httpd"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// step is how long a loop's step may take in these tests: longer than an idle worker waits for
// work, which is a second.
const step = 3 * time.Second

func steps() change { return with(func(o *worker.Config) { o.StuckAfter(step) }) }

// health serves a worker's /healthz, and returns a function that requests it.
func (r *rig) health(w *worker.Worker) (check func() error) {
	r.Helper()
	s, err := httpd.New(httpd.Config{Addr: "127.0.0.1:0", RedisURL: r.url, Healthy: w.Health})
	expect.OK(r, err)
	expect.OK(r, s.Start(r.ctx))
	r.Cleanup(func() { expect.OK(r, s.Stop(context.Background())) })
	return func() error { return httpd.HealthCheck(r.ctx, s.Addr()) }
}

// A loop that hangs in a call to Redis that never returns is reported by name.
func TestStuckLoopIsUnhealthy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hangs redistest.Match
		why   string
	}{
		"dispatch": {redistest.Named("bzpopmin"), "the claiming of sessions has not moved for "},
		"keeper":   {renewing, "the renewal of leases has not moved for "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newRig(t), newStage()
			var f redistest.Faults
			w := r.worker(s, faulty(&f), sentinelTTL(expect.Lease(time.Second)), steps())
			check := r.health(w)
			r.say("m1", "hello")
			s.next(t, "m1")
			expect.OK(t, check())
			gate := f.Gate(c.hangs)
			r.Cleanup(gate.Release)
			expect.Received(t, "the call that hangs", gate.Arrived())
			var err error
			expect.Soon(t, "/healthz to tell", func() bool { err = check(); return err != nil })
			_, took, named := strings.Cut(err.Error(), c.why)
			if !errors.Is(err, httpd.ErrUnhealthy) || !named {
				t.Errorf("/healthz says %v", err)
			}
			if d, err := time.ParseDuration(took); err != nil || d < step {
				t.Errorf("it was called stuck after %q: %v", took, err)
			}
			gate.Release()
			f.Clear()
			expect.Soon(t, "the loop to move on", func() bool { return check() == nil })
		})
	}
}

// A worker that only waits is healthy: a restart of the process would not help.
func TestWaitingIsHealthy(t *testing.T) {
	t.Parallel()
	stays := func(t *testing.T, w *worker.Worker) {
		t.Helper()
		begin := time.Now()
		expect.Soon(t, "the time after which it would be stuck", func() bool {
			if err := w.Health(); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin) > step+step/2
		})
	}
	t.Run("all slots are taken", func(t *testing.T) {
		t.Parallel()
		r, s := newRig(t), newStage()
		w := r.worker(s, slots(1), steps())
		r.say("m1", "hello")
		a := s.next(t, "m1")
		stays(t, w)
		a.reply("done")
	})
	t.Run("no message, and renewals are rare", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		stays(t, r.worker(echo.New(), sentinelTTL(time.Hour), steps()))
	})
	t.Run("Redis is away", func(t *testing.T) {
		t.Parallel()
		server, r := durable(t)
		s := newStage()
		w := r.worker(s, sentinelTTL(2*time.Second), steps()) // it ends while Redis is away
		r.say("m1", "hello")
		s.next(t, "m1")
		server.Kill()
		stays(t, w)
		server.Start()
		s.next(t, "m1").reply("done")
		r.ends("m1", session.StatusDone)
	})
	t.Run("before it starts, and when it has ended", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		w := r.idle(echo.New(), steps())
		expect.OK(t, w.Health())
		expect.OK(t, w.Start(r.ctx))
		r.drainAtOnce(w)
		stays(t, w)
	})
}
