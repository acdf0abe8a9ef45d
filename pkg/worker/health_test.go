package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile/internal/program/httpd"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/program"
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

// stalled is a real worker with an agent that waits for a file.
type stalled struct {
	*rig
	worker *program.Process
	ttl    time.Duration
	gate   string
}

func newStalled(t *testing.T) *stalled {
	t.Helper()
	expect.NotQuick(t)
	redistest.Real(t)
	s := &stalled{rig: newRig(t), ttl: expect.Lease(4 * time.Second), gate: filepath.Join(t.TempDir(), "gate")}
	s.worker = program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), []string{
		"REDIS_URL=" + acl.As(t, redistest.URL(t), acl.Worker), "PATH=" + os.Getenv("PATH"), "TURNSTILE_SENTINEL_TTL=" + s.ttl.String(), "TURNSTILE_SWEEP_INTERVAL=1s",
		"TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND=sh -c 'cat; until [ -e \"$0\" ]; do sleep 0.02; done' " + s.gate,
	}))
	return s
}

// left is how long Redis keeps the lease.
func (s *stalled) left() time.Duration {
	s.Helper()
	left, err := s.rdb.PTTL(s.ctx, s.k.Sentinel()).Result()
	expect.OK(s, err)
	return max(left, 0)
}

// renewed waits for a renewal, and then for a part of the pause until the next.
func (s *stalled) renewed(phase float64) {
	s.Helper()
	before := s.left()
	expect.Soon(s, "a renewal", func() bool {
		now := s.left()
		was := before
		before = now
		return now > was
	})
	until := s.ttl - time.Duration(phase*float64(s.ttl/3))
	expect.Soon(s, "the phase", func() bool { return s.left() <= until })
}

// stall stops the worker until Redis keeps its lease for no more than left.
func (s *stalled) stall(left time.Duration) {
	s.Helper()
	s.worker.Signal(syscall.SIGSTOP)
	expect.Soon(s, "the stall's end", func() bool { return s.left() <= left })
	s.worker.Signal(syscall.SIGCONT)
}

// turn is the turn that runs, "" if none does.
func (s *stalled) turn() string {
	if i := s.info(); i.Phase == session.PhaseRunning {
		return i.Turn
	}
	return ""
}

// A worker that is stopped for less than its lease lasts at that moment, less the margin of a tenth, keeps its turn,
// whenever between two renewals that begins: its guardian knows the last renewal.
func TestBriefStallKeepsTheTurn(t *testing.T) {
	t.Parallel()
	for _, phase := range []float64{0, 0.5, 0.9} {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			t.Parallel()
			s := newStalled(t)
			s.say("m", "hello")
			expect.Soon(t, "the turn", func() bool { return s.turn() != "" })
			turn := s.turn()
			s.renewed(phase)
			s.stall(s.ttl/10 + s.ttl/8) // the margin, and time for the next renewal
			s.renewed(0)                // it has noticed
			expect.Equal(t, "the turn after the stall", s.turn(), turn)
			expect.OK(t, os.WriteFile(s.gate, nil, 0o600))
			expect.Equal(t, "attempt", s.ends("m", session.StatusDone).Turn, turn)
		})
	}
}

// A longer stall costs the turn, and nothing else: it runs again in the same transcript, however often that happens.
func TestStallsAreNoInterruptions(t *testing.T) {
	t.Parallel()
	s := newStalled(t)
	s.say("m", "hello")
	expect.Soon(t, "the turn", func() bool { return s.turn() != "" })
	was := s.info()
	for i := range 3 { // STUCK_LIMIT
		turn := s.turn()
		s.renewed([]float64{0, 0.5, 0.9}[i])
		s.stall(s.ttl / 20) // the guardian has killed the agent; the sentinel is there
		expect.Soon(t, "another turn", func() bool { now := s.turn(); return now != "" && now != turn })
	}
	now := s.info()
	expect.Equal(t, "transcript", now.TranscriptID, was.TranscriptID)
	expect.Equal(t, "interruptions", now.Resume.Interruptions, 0)
	expect.OK(t, os.WriteFile(s.gate, nil, 0o600))
	s.ends("m", session.StatusDone)
}
