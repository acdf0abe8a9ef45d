package index_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// WithTasks keeps the sessions with any of the keys, in their order: of groups in which none, some, or all have one, or
// all of them have all.
func TestWithTasks(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	names := []func(rediskey.Session) string{rediskey.Session.Pending, rediskey.Session.Archived}
	luck := rand.New(rand.NewPCG(1, 2))
	var sessions []string
	has := map[string]int{}
	for group := range 20 {
		for i := range 50 {
			s := fmt.Sprintf("s%d-%d", group, i)
			sessions = append(sessions, s)
			switch group % 4 {
			case 1:
				has[s] = luck.IntN(4)
			case 2:
				has[s] = 1 + luck.IntN(3)
			case 3:
				has[s] = 3
			}
		}
	}
	sessions = append(sessions, sessions[51], "last") // twice, and a short group
	has["last"] = 2
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for s, keys := range has {
			for i, name := range names {
				if keys&(1<<i) != 0 {
					p.Set(t.Context(), name(rediskey.For(s)), "x", 0)
				}
			}
		}
		return nil
	})
	expect.OK(t, err)
	for n := 1; n <= len(names); n++ {
		var want []string
		for _, s := range sessions {
			if has[s]&(1<<n-1) != 0 {
				want = append(want, s)
			}
		}
		found, err := index.NewWalker(rdb).WithTasks(t.Context(), sessions, names[:n]...)
		expect.OK(t, err)
		expect.List(t, fmt.Sprintf("with one of %d keys", n), found, want...)
		near, err := index.NewWalker(rdb).NearTasks(t.Context(), sessions, names[:n]...)
		expect.OK(t, err)
		expect.List(t, fmt.Sprintf("not in a group near one of %d keys", n), index.Without(want, near))
	}
	none, err := index.NewWalker(rdb).WithTasks(t.Context(), nil, names...)
	expect.OK(t, err)
	expect.List(t, "of none", none)
}
