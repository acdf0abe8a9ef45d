package outbox

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// ahead makes Redis' clock be ahead of this machine's.
type ahead time.Duration

func (ahead) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (ahead) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (a ahead) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if clock, ok := cmd.(*redis.TimeCmd); ok {
				clock.SetVal(clock.Val().Add(time.Duration(a)))
			}
		}
		return err
	}
}

// No attempt begins that could end after the part of the lease that is trusted: another deliverer may have
// the line then.
func TestNothingIsPostedPastTheLease(t *testing.T) {
	t.Parallel()
	to := aDestination(t, serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was posted") }), true)
	known := &Destinations{list: []*Destination{to}, byName: map[string]*Destination{to.Name: to}}
	d, err := New(redistest.New(t), Options{Destinations: func() *Destinations { return known }, Timeout: time.Minute})
	expect.OK(t, err)
	t.Cleanup(func() { d.Stop(t.Context()) })
	now := time.Now()
	l := &line{
		visit: &visit{Deliverer: d, session: "chat", known: known}, to: to, target: d.target(to.Name),
		now: now.UnixMilli(), got: now, trusted: now.Add(time.Minute),
	}
	expect.Equal(t, "the line may be leased anew", l.deliver([]deliveries.Delivery{aDelivery()}), lineMore)
}

// The end of a pause is a time of Redis' clock, which another machine has stored.
func TestPauseEndsByRedisClock(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	rdb.AddHook(ahead(time.Hour))
	end := time.Now().Add(time.Hour + time.Minute).UnixMilli()
	expect.OK(t, rdb.HSet(t.Context(), rediskey.Destinations, "bot", fmt.Sprintf(`{"paused":true,"at":%d}`, end)).Err())
	known := &Destinations{byName: map[string]*Destination{"bot": {Route: Route{Name: "bot"}}}}
	d, err := New(rdb, Options{Destinations: func() *Destinations { return known }})
	expect.OK(t, err)
	t.Cleanup(func() { d.Stop(t.Context()) })
	d.refreshStates(time.Now())
	if left := time.Until(d.states.pausedUntil("bot")); left < 30*time.Second || left > time.Minute {
		t.Errorf("a pause that ends in a minute ends in %s", left)
	}
	if left := d.target("bot").breaker.wait(time.Now()); left < 30*time.Second || left > time.Minute {
		t.Errorf("its breaker opens in %s", left)
	}
}
