package explore_test

import (
	"os"
	"slices"
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

// EXPLORE says how much is searched. Without it there are only beginnings: with the race detector the rest
// would take too long.
const (
	gate  = "gate"  // the first gateStates of each configuration: .ci/run
	whole = "whole" // all states, and all mutations: make explore
	long  = "long"  // as whole, with one fault more: make proof
)

// gateStates see the end of half of the configurations.
const gateStates = 6_000

// searches skips the test unless EXPLORE is one of these.
func searches(t *testing.T, levels ...string) {
	t.Helper()
	if !slices.Contains(levels, os.Getenv("EXPLORE")) {
		t.Skip("make explore runs this")
	}
}

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
	searches(t, gate, whole, long)
	level, db := os.Getenv("EXPLORE"), database(t)
	all, least := 0, 0
	for _, c := range configurations() {
		least += c.AtLeast
		t.Run(c.Name, func(t *testing.T) {
			switch {
			case level == gate && (c.Most == 0 || c.Most > gateStates):
				c.Most, c.AtLeast = gateStates, min(c.AtLeast, gateStates)
			case level == long && c.Deep:
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
