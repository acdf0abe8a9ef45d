package explore_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/test/expect"
	"turnstile/test/explore"
	"turnstile/test/mutation"
	"turnstile/test/redistest"
)

// found is the configuration with a name.
func found(t *testing.T, name string) configuration {
	t.Helper()
	all := configurations()
	i := slices.IndexFunc(all, func(c configuration) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no configuration %q", name)
	}
	return all[i]
}

// TestSchedule replays the schedule in EXPLORE_SCHEDULE of the configuration in
// EXPLORE_CONFIGURATION, and shows its trace.
func TestSchedule(t *testing.T) {
	name, schedule := os.Getenv("EXPLORE_CONFIGURATION"), os.Getenv("EXPLORE_SCHEDULE")
	if name == "" {
		t.Skip("EXPLORE_CONFIGURATION names none")
	}
	c := found(t, name)
	c.Faults = 9
	r, err := explore.NewSearch(&c.Configuration, database(t), bubble(t)).Replay(schedule, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %q\n%s", name, r.What, strings.Join(r.Trace, "\n"))
}

// A finding's schedule leads to the same finding again.
func TestReplayIsExact(t *testing.T) {
	expect.Unraced(t)
	db := database(t)
	mutations, err := mutation.Load("testdata/mutations.txtar")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(mutations, func(m mutation.Mutation) bool { return m.Name == "steer-lost" })
	sources, err := mutations[i].Apply()
	if err != nil {
		t.Fatal(err)
	}
	db.Replace(sources)
	c := found(t, "steer")
	s := search(t, db, &c.Configuration)
	if len(s.Findings) != 1 {
		t.Fatalf("%d findings", len(s.Findings))
	}
	f := s.Findings[0]
	again, err := explore.NewSearch(&c.Configuration, db, bubble(t)).Replay(f.Schedule, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.What != f.What || !slices.Equal(again.Trace, f.Trace) {
		t.Errorf("replayed: %s\n%v\nwant %s", again.What, again.Trace, f)
	}
}

// samples are the configurations with schedules that other tests replay.
var samples = []string{"network", "plain-sender", "crashes", "lost-leases"}

// Scripts do the same in this package's runner and in the embedded server's.
func TestScriptsAsTheEmbeddedServerRunsThem(t *testing.T) {
	searches(t, whole, long)
	db := database(t)
	for _, name := range append(samples, "delayed", "interrupt", "collect", "full-old", "undo-retry", "stop", "drain", "retry") {
		c := found(t, name)
		c.Most = 3_000
		s := search(t, db, &c.Configuration)
		for _, schedule := range s.Sample(10, false) {
			if err := s.ReplayTwice(schedule); err != nil {
				t.Errorf("%s: %v\n%s", name, err, schedule)
			}
		}
	}
}

// A real server returns the same as the embedded one.
func TestSamplesOnARealServer(t *testing.T) {
	expect.Unraced(t)
	redistest.Real(t)
	opts, err := redis.ParseURL(redistest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	opts.Protocol = 2
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	db := database(t)
	replayed := 0
	for _, name := range samples {
		c := found(t, name)
		c.Most = 3_000
		s := search(t, db, &c.Configuration)
		for _, schedule := range s.Sample(20, true) {
			keys, err := rdb.Keys(t.Context(), "*").Result()
			if err == nil && len(keys) > 0 {
				err = rdb.Del(t.Context(), keys...).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := s.ReplayOn(t.Context(), schedule, rdb); err != nil {
				t.Errorf("%s: %v\n%s", name, err, schedule)
			}
			replayed++
		}
	}
	if replayed < 4*15 {
		t.Errorf("%d samples only", replayed)
	}
}
