package explore_test

import (
	"testing"
	"testing/synctest"
	"time"

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

func TestFirst(t *testing.T) {
	c := &explore.Configuration{
		Name: "first", Sessions: []string{main}, Ordered: []string{"m1", "m2"},
		Processes: with(list(sender("sender1", text("m1")), sender("sender2", text("m2")), worker("worker1", agent{}), worker("worker2", agent{})), timers()),
	}
	began := time.Now()
	s := explore.NewSearch(c, database(t), bubble(t))
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("%d states, %d transitions, depth %d, %s, %.0f us/transition, whole %v", s.States(), s.Transitions, s.Deepest, took,
		float64(took.Microseconds())/float64(s.Transitions), s.Whole)
	for _, f := range s.Findings {
		t.Error(f)
	}
	r, err := s.Replay(s.Sample(1)[0], nil)
	t.Log(err)
	for _, l := range r.Trace { t.Log(l) }
}
