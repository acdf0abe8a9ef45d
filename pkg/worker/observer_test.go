package worker_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// seen is an observer that stores its calls, with the worker's log.
type seen struct {
	log lockedBuffer

	mu     sync.Mutex
	waits  []time.Duration
	ends   []worker.TurnEnd
	failed map[string]int
}

func (s *seen) messageStarted(wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = append(s.waits, wait)
}

func (s *seen) turnEnded(end worker.TurnEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, end)
}

func (s *seen) redisFailed(duty string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = map[string]int{}
	}
	if err != nil {
		s.failed[duty]++
	}
}

func (s *seen) failures(duty string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed[duty]
}

// observes gives a worker the observer and its log, in an operator's format.
func observes(s *seen) change {
	return with(func(o *worker.Config) {
		o.Observer = worker.Observer{MessageStarted: s.messageStarted, TurnEnded: s.turnEnded, RedisFailed: s.redisFailed}
		o.Logger = slog.New(slog.NewTextHandler(&s.log, nil))
	})
}

// next waits for the n-th end of a turn, counted from 0.
func (s *seen) next(t *testing.T, n int) (end worker.TurnEnd) {
	t.Helper()
	expect.Soon(t, fmt.Sprint("end ", n), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.ends) <= n {
			return false
		}
		end = s.ends[n]
		return true
	})
	return end
}

func (s *seen) messages() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waits)
}

// line returns the log's only line about a turn's end.
func (s *seen) line(t *testing.T, end worker.TurnEnd) (line string) {
	t.Helper()
	var found []string
	expect.Soon(t, "the line about "+end.Turn, func() bool {
		found = nil
		for l := range strings.Lines(s.log.String()) {
			if strings.Contains(l, `msg="turn ended"`) && strings.Contains(l, "turn="+end.Turn+" ") {
				found = append(found, l)
			}
		}
		return len(found) > 0
	})
	expect.Equal(t, "lines about a turn's end", len(found), 1)
	return found[0]
}

// Each kind of end is reported once, to the observer and in the log.
func TestTurnEndsAreReported(t *testing.T) {
	t.Parallel()
	r, o := newRig(t), &seen{}
	st := newStage()
	r.worker(st, observes(o), with(func(o *worker.Config) { o.MaxAttempts = 2 }))
	n := 0
	check := func(id string, status session.Status, attempt int, level, why string) worker.TurnEnd {
		t.Helper()
		end := o.next(t, n)
		n++
		expect.Equal(t, "session", end.Session, r.key)
		expect.Equal(t, "message", end.Message, id)
		expect.Equal(t, "status of "+id, end.Status, status)
		expect.Equal(t, "attempt of "+id, end.Attempt, attempt)
		if (end.Err == nil) != (why == "") || end.Err != nil && !strings.Contains(end.Err.Error(), why) {
			t.Errorf("%s ended because of %v, want %q", id, end.Err, why)
		}
		line := o.line(t, end)
		for _, part := range []string{
			"level=" + level, "session=" + r.key, "status=" + string(status), "message=" + id, fmt.Sprint("attempt=", attempt),
			"duration=", "wait=", why,
		} {
			if !strings.Contains(line, part) {
				t.Errorf("the line lacks %s: %s", part, line)
			}
		}
		return end
	}

	r.say("done", "hello")
	a := st.next(t, "done")
	r.say("failed", "behind")
	waits := time.Now()
	expect.Soon(t, "some waiting", func() bool { return time.Since(waits) > 30*time.Millisecond })
	a.reply("one")
	if end := check("done", session.StatusDone, 1, "INFO", ""); !end.Ran || end.Duration < 20*time.Millisecond {
		t.Errorf("%+v", end)
	}

	st.next(t, "failed").fail(agent.Retryable(errors.New("busy")))
	end := check("failed", worker.StatusRetried, 1, "INFO", "busy")
	if end.Wait < 20*time.Millisecond {
		t.Errorf("it waited %s, behind a turn of 30ms", end.Wait)
	}
	if line := o.line(t, end); !strings.Contains(line, "retry_in=") {
		t.Errorf("the line does not say when it is tried again: %s", line)
	}
	st.next(t, "failed").fail(agent.Retryable(errors.New("busy again")))
	check("failed", session.StatusFailed, 2, "WARN", "busy again")

	r.say("stopped", "hello")
	st.next(t, "stopped")
	r.say("", "/stop")
	check("stopped", session.StatusStopped, 1, "INFO", "stopped by user")

	r.say("interrupted", "hello")
	st.next(t, "interrupted")
	r.say("newer", "hello", session.ModeInterrupt)
	check("interrupted", session.StatusInterrupted, 1, "INFO", "newer message")
	st.next(t, "newer").reply("yes")
	check("newer", session.StatusDone, 1, "INFO", "")

	r.say("first", "hello")
	last := st.next(t, "first")
	r.send(r.key, turnstile.Message{ID: "expired", Text: "hello", ExpiresIn: 1})
	waits = time.Now()
	expect.Soon(t, "more than the millisecond that ages are counted in", func() bool { return time.Since(waits) > 10*time.Millisecond })
	last.reply("ok")
	check("first", session.StatusDone, 1, "INFO", "")
	if end := check("expired", session.StatusExpired, 1, "INFO", "expired"); end.Ran {
		t.Error("an agent was started for an expired message")
	}
	// The messages: done, failed once, stopped, interrupted, newer, first.
	expect.Equal(t, "messages that were started", o.messages(), 6)
}

// A drain requeues turns, and a lost lease ends them.
func TestRequeuedAndLostTurnsAreReported(t *testing.T) {
	t.Parallel()
	r, o := newRig(t), &seen{}
	s := newStage()
	w := r.worker(s, observes(o), sentinelTTL(expect.Lease(time.Second)))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	expect.OK(t, r.rdb.Set(r.ctx, r.k.Sentinel(), "another's", time.Second).Err())
	_ = a.cause(t)
	lost := o.next(t, 0)
	expect.Equal(t, "status", lost.Status, worker.StatusLost)
	if !errors.Is(lost.Err, agent.ErrLeaseLost) {
		t.Errorf("it ended because of %v", lost.Err)
	}
	if line := o.line(t, lost); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "status=lost") {
		t.Error(line)
	}

	s.next(t, "m1")
	expect.Equal(t, "messages that were started", o.messages(), 1) // it runs again, and counts once
	w.Drain(ended(), worker.ReasonRestart)
	back := o.next(t, 1)
	expect.Equal(t, "status", back.Status, worker.StatusRequeued)
	if line := o.line(t, back); !strings.Contains(line, "level=INFO") || !strings.Contains(line, "requeued: restart_timeout") {
		t.Error(line)
	}
}

// A failure in Redis is reported with the worker's duty, except failures that a drain causes.
func TestRedisFailuresAreReported(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	r, o := newRig(t), &seen{}
	var f redistest.Faults
	broken := errors.New("no such luck")
	f.FailBefore(redistest.Named("zpopmin"), 2, broken)
	f.FailBefore(renewing, 1, broken)
	s := newStage()
	w := r.worker(s, observes(o), faulty(&f), sentinelTTL(expect.Lease(15*time.Second))) // the turn keeps its lease on a slow machine
	r.say("m1", "hello")
	a := s.next(t, "m1")
	expect.Equal(t, "failed claims", o.failures("claim"), 2)
	expect.Soon(t, "a failed renewal", func() bool { return o.failures("renew") == 1 })
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	expect.Equal(t, "failed renewals", o.failures("renew"), 1)
	w.Drain(ended(), worker.ReasonShutdown)
	for _, duty := range []string{"due", "reap", "sweep"} {
		expect.Equal(t, "failures of "+duty, o.failures(duty), 0)
	}
	expect.Equal(t, "failed claims", o.failures("claim"), 2)
}
