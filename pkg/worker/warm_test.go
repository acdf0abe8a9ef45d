package worker

import (
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"turnstile/pkg/agent"
)

// closer is a warm agent that reports when it was closed.
type closer struct {
	agent.Warm
	tell func()
}

func (closer) Ended() bool { return false }

func (c closer) Close() error {
	c.tell()
	return nil
}

// shelf is a warm pool, with a record of the agents that it closed.
type shelf struct {
	*warmPool
	mu     sync.Mutex
	closed []string
}

func newShelf(most int, ttl time.Duration) *shelf {
	return &shelf{warmPool: newWarmPool(Config{WarmAgents: most, WarmTTL: ttl, Logger: slog.New(slog.DiscardHandler)})}
}

func (s *shelf) fill(sessions ...string) {
	for _, session := range sessions {
		s.put(&warmAgent{session: session, Warm: closer{tell: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.closed = append(s.closed, session)
		}}})
	}
}

// gone checks which agents were closed so far, in any order.
func (s *shelf) gone(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.closed)
	if !slices.Equal(s.closed, want) {
		t.Errorf("closed %q, want %q", s.closed, want)
	}
	for _, session := range want {
		if s.has(session) {
			t.Errorf("%s is still held", session)
		}
	}
}

func TestTheLongestIdleGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(2, time.Hour)
		s.fill("a", "b")
		s.gone(t)
		a := s.take("a")
		if s.has("a") || !s.has("b") {
			t.Error("an agent is held that runs a turn, or an idle one is not")
		}
		s.fill("c", "d") // a is in a turn, so it is not evicted
		s.gone(t, "b")
		s.put(a)
		s.gone(t, "b", "c")
		if !s.has("a") || !s.has("d") {
			t.Error("the two latest are not held")
		}
		s.end()
		s.gone(t, "a", "b", "c", "d")
	})
}

func TestIdleAgentsExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(9, time.Hour)
		s.fill("a")
		time.Sleep(30 * time.Minute)
		s.fill("b", "c")
		b := s.take("b")
		time.Sleep(30*time.Minute - time.Nanosecond)
		s.gone(t)
		time.Sleep(time.Nanosecond)
		s.gone(t, "a")
		s.put(b) // its hour begins again
		time.Sleep(30 * time.Minute)
		s.gone(t, "a", "c")
		time.Sleep(30 * time.Minute)
		s.gone(t, "a", "b", "c")
		s.end()
	})
}

// One worker runs two turns of one session: the first had lost the session.
func TestASecondAgentOfASessionReplacesTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(2, time.Hour)
		s.fill("a", "b")
		first, _ := s.idle.Peek("a")
		s.fill("a")
		synctest.Wait()
		if !slices.Equal(s.closed, []string{"a"}) {
			t.Errorf("closed %q", s.closed)
		}
		if s.takeBack(first) {
			t.Error("an agent was taken back that is another's")
		}
		if !s.has("a") || !s.has("b") {
			t.Error("the others are not held")
		}
		s.end()
		s.gone(t, "a", "a", "b")
	})
}

func TestAfterTheEndNothingIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(2, time.Hour)
		s.end()
		s.fill("a")
		s.gone(t, "a")
	})
}

func TestAClosePanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(2, time.Hour)
		s.put(&warmAgent{session: "a", Warm: closer{tell: func() { panic("closed in anger") }}})
		s.fill("b")
		s.end()
		s.gone(t, "b")
	})
}
