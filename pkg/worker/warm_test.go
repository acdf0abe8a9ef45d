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

// judged checks the verdict on an agent that has seen had.
func judged(t *testing.T, what string, had, now seen, want verdict) {
	t.Helper()
	if got := judge(&warmAgent{Warm: closer{}, signature: "s", seen: had}, "s", now); got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestB46_CountsOfTwoTranscripts(t *testing.T) {
	t.Parallel()
	for _, entries := range []int64{0, 4, 5} {
		judged(t, "another transcript", seen{"a", 4}, seen{"b", entries}, reuse)
	}
	in := seen{"a", 4}.entering(seen{"b", 2})
	judged(t, "the new transcript as it was", in, seen{"b", 2}, reuse)
	judged(t, "a foreign write to the new transcript", in, seen{"b", 4}, otherWriter)
	judged(t, "back in the old transcript", in, seen{"a", 9}, reuse)
}

func TestB47_ChangedSettingsCloseAWarmAgent(t *testing.T) {
	t.Parallel()
	kept := &warmAgent{Warm: closer{}, signature: "s", seen: seen{"a", 4}}
	if got := judge(kept, "other", seen{"a", 4}); got != otherSettings {
		t.Errorf("%q", got)
	}
}

func TestB48_RebaseForAnotherTranscript(t *testing.T) {
	t.Parallel()
	if got := (seen{"a", 4}).rebased(seen{"b", 9}); got != (seen{"a", 4}) {
		t.Errorf("%+v", got)
	}
}

func TestB49_OwnEntriesRaiseTheCount(t *testing.T) {
	t.Parallel()
	s := seen{"a", 0}
	for n := int64(2); n <= 10; n += 2 {
		judged(t, "before a turn", s, seen{"a", n - 2}, reuse)
		s = s.entering(seen{"a", n - 2}).rebased(seen{"a", n})
	}
}

func TestB50_ForeignWritesCloseAWarmAgent(t *testing.T) {
	t.Parallel()
	judged(t, "more", seen{"a", 4}, seen{"a", 6}, otherWriter)
	judged(t, "less", seen{"a", 4}, seen{"a", 2}, otherWriter)
	judged(t, "the first entries", seen{"a", 0}, seen{"a", 2}, otherWriter)
	judged(t, "all gone", seen{"a", 4}, seen{"a", 0}, otherWriter)
}

func TestB51_EntryWithoutACount(t *testing.T) {
	t.Parallel()
	free := seen{"a", uncounted}
	judged(t, "a foreign write", free, seen{"a", 6}, reuse)
	if got := free.rebased(seen{"a", 6}); got != free {
		t.Errorf("re-based to %+v", got)
	}
	if got := free.entering(seen{"b", 6}); got != free {
		t.Errorf("counted in another transcript: %+v", got)
	}
}

func TestB52_EntryWithoutASessionID(t *testing.T) {
	t.Parallel()
	s := seen{"", 4}
	judged(t, "nothing new", s, seen{"a", 4}, reuse)
	judged(t, "a foreign write", s, seen{"a", 6}, otherWriter)
	if got := s.entering(seen{"a", 4}).rebased(seen{"a", 6}); got != (seen{"", 6}) {
		t.Errorf("re-based to %+v", got)
	}
}

func TestB53_UnknownCountAndNoEntry(t *testing.T) {
	t.Parallel()
	judged(t, "an unknown count", seen{"a", 4}, seen{"a", uncounted}, reuse)
	if got := (seen{"a", 4}).rebased(seen{"a", uncounted}); got != (seen{"a", 4}) {
		t.Errorf("re-based to %+v", got)
	}
	if got := judge(nil, "s", seen{"a", 4}); got != buildFirst {
		t.Errorf("no entry: %q", got)
	}
}
