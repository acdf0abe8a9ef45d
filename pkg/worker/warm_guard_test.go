package worker

import "testing"

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
