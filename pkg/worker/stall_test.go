package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

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
