package resume_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/pkg/resume"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The scripts run on the other kinds of Redis too: a Cluster spreads the sessions over its nodes, and the
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
			for _, s := range []string{"a", "b", "c", "d"} {
				introduce(t, rdb, s)
				answer(t, true)(resume.Mark(t.Context(), rdb, s, resume.ReasonCrash))
			}
			answer(t, true)(resume.Clear(t.Context(), rdb, "b"))
			answer(t, true)(resume.Suspend(t.Context(), rdb, "c"))
			for s, want := range map[string]resume.Record{
				"a": {Pending: true, Reason: resume.ReasonCrash},
				"b": {},
				"c": {Pending: true, Reason: resume.ReasonCrash, Suspended: true},
				"d": {Pending: true, Reason: resume.ReasonCrash},
			} {
				got, err := resume.Read(t.Context(), rdb, s)
				expect.OK(t, err)
				expect.Equal(t, s+": a time", got.MarkedAt.IsZero(), !want.Pending)
				got.MarkedAt, got.Age = want.MarkedAt, want.Age
				expect.Equal(t, s, got, want)
			}
		})
	}
}
