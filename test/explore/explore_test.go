package explore_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"turnstile/test/expect"
	"turnstile/test/explore"
)

func bubble(t *testing.T) func(func()) {
	return func(f func()) { synctest.Test(t, func(*testing.T) { f() }) }
}

func database(t testing.TB) *explore.Database {
	t.Helper()
	db, err := explore.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// thorough skips searches that `make explore` makes: with the race detector they would take too
// long.
func thorough(t *testing.T) {
	t.Helper()
	if os.Getenv("EXPLORE") == "" {
		t.Skip("make explore runs this")
	}
}

// long reports whether there is more time than in CI.
func long() bool { return os.Getenv("EXPLORE") == "long" }

// The beginning of each search: its processes run, and nothing is found at once.
func TestBeginnings(t *testing.T) {
	expect.Unraced(t)
	db := database(t)
	for _, c := range configurations() {
		c.Most = 150
		if s := search(t, db, &c.Configuration); len(s.Findings) > 0 && c.Known == "" {
			t.Errorf("%s\n%s", c.Purpose, s.Findings[0])
		}
	}
}

// TestConfigurations searches all configurations.
func TestConfigurations(t *testing.T) {
	thorough(t)
	db := database(t)
	all, least := 0, 0
	for _, c := range configurations() {
		least += c.AtLeast
		t.Run(c.Name, func(t *testing.T) {
			if long() && c.Deep {
				c.Faults++
				c.Most = 400_000
			}
			s := search(t, db, &c.Configuration)
			all += s.Transitions
			judge(t, c, s)
		})
	}
	t.Logf("%d transitions in all", all)
	if least < 100_000 {
		t.Errorf("the configurations promise %d transitions only", least)
	}
}

func search(t *testing.T, db *explore.Database, c *explore.Configuration) *explore.Search {
	t.Helper()
	began := time.Now()
	s := explore.NewSearch(c, db, bubble(t))
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	all := "all"
	if !s.Whole {
		all = "the first"
	}
	t.Logf("%s: %s %d states, %d transitions, %d steps deep, %.1f s, %.0f us each", c.Name, all, s.States(), s.Transitions, s.Deepest,
		took.Seconds(), float64(took.Microseconds())/float64(max(s.Transitions, 1)))
	return s
}

// judge fails t if a search has an unknown finding, or lacks the known one.
func judge(t *testing.T, c configuration, s *explore.Search) {
	t.Helper()
	switch {
	case c.Known == "" && len(s.Findings) > 0:
		t.Errorf("%s\n%s", c.Purpose, s.Findings[0])
	case c.Known == "" && s.Transitions < c.AtLeast:
		t.Errorf("%d transitions, want at least %d: has a process nothing to do?", s.Transitions, c.AtLeast)
	case c.Known != "" && len(s.Findings) == 0:
		t.Errorf("finding %s is not found any more: take Known and Finds out of this configuration", c.Known)
	case c.Known != "" && !strings.HasPrefix(s.Findings[0].What, c.Finds):
		t.Errorf("found something else than %q\n%s", c.Finds, s.Findings[0])
	case c.Known != "":
		t.Logf("known, %s: %s", c.Known, s.Findings[0])
	}
}
