package resume_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/resume"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// listed collects what List yields; broken are the sessions with an error.
func listed(t *testing.T, rdb redis.UniversalClient) (found map[string]resume.Record, broken []string) {
	t.Helper()
	found = map[string]resume.Record{}
	for s, err := range resume.List(t.Context(), rdb) {
		if _, twice := found[s.Session]; twice {
			t.Errorf("%s is listed twice", s.Session)
		}
		if err != nil {
			broken = append(broken, s.Session)
			continue
		}
		found[s.Session] = s.Record
	}
	return found, broken
}

func TestList(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	found, broken := listed(t, rdb)
	expect.Equal(t, "sessions of nothing", len(found)+len(broken), 0)

	// More than a batch, with every seventh marked.
	const sessions = 1500
	want := 0
	for i := range sessions {
		name := fmt.Sprintf("s%d", i)
		introduce(t, rdb, name)
		if i%7 == 0 {
			answer(t, true)(resume.Mark(t.Context(), rdb, name, resume.ReasonCrash))
			want++
		}
	}
	answer(t, true)(resume.Suspend(t.Context(), rdb, "s1"))
	expect.OK(t, rdb.HSet(t.Context(), rediskey.For("s2").Resume(), "interruptions", "2").Err())
	expect.OK(t, rdb.Set(t.Context(), rediskey.For("s3").Resume(), "x", 0).Err())
	found, broken = listed(t, rdb)
	expect.Equal(t, "listed", len(found), want+1)
	expect.Equal(t, "suspended", found["s1"], resume.Record{Suspended: true})
	if r := found["s7"]; !r.Pending || r.Reason != resume.ReasonCrash || r.MarkedAt.IsZero() {
		t.Errorf("marked: %+v", r)
	}
	if !slices.Equal(broken, []string{"s3"}) {
		t.Errorf("broken: %q", broken)
	}
	seen := 0
	for range resume.List(t.Context(), rdb) { //nolint:errcheck // its errors were seen above
		if seen++; seen == 3 {
			break // a caller may stop early
		}
	}
	expect.Equal(t, "seen until the break", seen, 3)
}

// Without Redis there is one error, not one for each session.
func TestListWithoutRedis(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	for i := range 10 {
		introduce(t, rdb, fmt.Sprintf("s%d", i))
	}
	away := errors.New("away")
	for _, name := range []string{"zscan", "evalsha"} {
		var faults redistest.Faults
		client := redis.NewClient(rdb.(*redis.Client).Options())
		t.Cleanup(func() { _ = client.Close() })
		client.AddHook(&faults)
		faults.FailBefore(redistest.Named(name), -1, away)
		errs := 0
		for s, err := range resume.List(t.Context(), client) {
			errs++
			if !errors.Is(err, away) || s.Session != "" {
				t.Errorf("%s: %+v, %v", name, s, err)
			}
		}
		expect.Equal(t, name+": errors", errs, 1)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range resume.List(cancelled, rdb) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// List works on the other kinds of Redis too: a Cluster spreads the sessions over its nodes, and the
// embedded server runs scripts by its own engine.
func TestBackends(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) redis.UniversalClient{
		"cluster": func(t *testing.T) redis.UniversalClient { return redistest.StartCluster(t).Client() },
		"embedded": func(t *testing.T) redis.UniversalClient {
			rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
			t.Cleanup(func() { _ = rdb.Close() })
			return rdb
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			for _, s := range []string{"a", "b", "c", "d", "e"} {
				introduce(t, rdb, s)
			}
			for _, s := range []string{"a", "b", "c"} {
				answer(t, true)(resume.Mark(t.Context(), rdb, s, ""))
			}
			answer(t, true)(resume.Suspend(t.Context(), rdb, "d"))
			answer(t, true)(resume.Clear(t.Context(), rdb, "b"))
			found, broken := listed(t, rdb)
			names := slices.Sorted(maps.Keys(found))
			if !slices.Equal(names, []string{"a", "c", "d"}) || len(broken) > 0 {
				t.Errorf("listed %q, broken %q", names, broken)
			}
		})
	}
}
