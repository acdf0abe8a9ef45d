package worker_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/testredis"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	sq "turnstile/pkg/sessionqueue"
)

// A session whose keys Redis refuses is tried once and then left alone for a while:
// the others do not wait for it.
func TestABrokenSessionSlowsNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	k := rediskey.For("broken")
	var claims atomic.Int64
	var faults testredis.Faults
	faults.Delay(func(cmd redis.Cmder) bool {
		args := cmd.Args()
		if cmd.Name() == "evalsha" && sq.ScriptName(fmt.Sprint(args[1])) == "claim" && slices.Contains(args, any(k.Sentinel())) {
			claims.Add(1)
		}
		return false
	}, 0)
	r.submit("broken", session.Message{ID: "m", Text: "hello"})
	must(t, r.rdb.Set(r.ctx, k.Pending(), "of a wrong type", 0).Err())
	r.worker(echo.New(), faulty(&faults))
	await(t, "the broken session to be tried", func() bool { return claims.Load() > 0 })
	for i := range 20 {
		key := fmt.Sprint("s", i)
		r.submit(key, session.Message{ID: "m", Text: "hello"})
		equal(t, key, r.outcomeIn(key, "m").Status, sq.StatusDone)
	}
	equal(t, "claims, the plain one and the whole one", claims.Load(), 2)
	if err := r.rdb.ZScore(r.ctx, rediskey.Ready, "broken").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("it is ready again: %v", err)
	}
	must(t, r.rdb.ZScore(r.ctx, rediskey.Owned, "broken").Err()) // reap looks at it again
}
