package outbox_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/outbox"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A destination fails for several sessions, or answers 410. An operator changes its state before any
// command of the deliverer: the operator's state stays. Once the destination is enabled, everything is
// delivered once.
func TestOperatorsWordStays(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	const commands = 30 // of three visits, until the breaker opens
	pause, disable := deliveries.DestinationState{Paused: true, Why: "operator"}, deliveries.DestinationState{Disabled: true, Why: "operator"}
	for name, c := range map[string]struct {
		status int
		state  deliveries.DestinationState
	}{
		"pause": {500, pause}, "disable": {500, disable}, "enable": {500, deliveries.DestinationState{}},
		"pause-410": {410, pause}, "disable-410": {410, disable}, "enable-410": {410, deliveries.DestinationState{}},
	} {
		var came atomic.Int64
		t.Run(name, func(t *testing.T) {
			for n := range int64(commands) {
				t.Run(fmt.Sprint("before command ", n+1), func(t *testing.T) {
					t.Parallel()
					if operatorBefore(t, n+1, c.status, c.state) {
						came.Add(1)
					}
				})
			}
		})
		expect.Equal(t, "commands to stop before", came.Load() >= 10, true)
	}
}

func operatorBefore(t *testing.T, n int64, status int, state deliveries.DestinationState) (came bool) {
	t.Helper()
	rdb := redistest.New(t)
	r := rigOn(t, rdb)
	var f redistest.Faults
	var counts, works atomic.Bool
	var seen, delivered atomic.Int64
	gate := f.Gate(func(redis.Cmder) bool { return counts.Load() && seen.Add(1) == n })
	defer gate.Release()
	operator := redis.NewClient(rdb.(*redis.Client).Options())
	t.Cleanup(func() { _ = operator.Close() })
	v := r.receiver(func(got) int {
		if works.Load() {
			delivered.Add(1)
			return 200
		}
		return status
	})
	for n := range breakerSessions {
		r.answer(r.key(n), "bot", "m")
		r.due(r.key(n))
	}
	rdb.AddHook(&f)
	counts.Store(true)
	v.deliverer(func(o *outbox.Options) { o.BreakerPause, o.Poll = time.Hour, 50*time.Millisecond })
	states := func() map[string]deliveries.DestinationState {
		all, _, err := deliveries.Destinations(r.ctx, operator)
		expect.OK(t, err)
		return all
	}
	set := func(s deliveries.DestinationState) {
		expect.OK(t, actors.SetDestination(r.ctx, operator, "bot", s))
	}
	select {
	case <-gate.Arrived():
		came = true
		set(state)
	case <-time.After(time.Second): // it has fewer commands
	}
	gate.Release()
	waiting := func() bool {
		soonest := operator.ZRangeWithScores(r.ctx, rediskey.Outbox, 0, 0).Val()
		return len(soonest) > 0 && time.Until(time.UnixMilli(int64(soonest[0].Score))) > 30*time.Second
	}
	expect.Soon(t, "a pause", func() bool { return len(states()) == 1 })
	expect.Soon(t, "all to wait", waiting)
	if came && state != (deliveries.DestinationState{}) {
		expect.Equal(t, "the state", states()["bot"], state)
	}
	works.Store(true)
	set(deliveries.DestinationState{})
	for n := range breakerSessions {
		expect.Soon(t, "a delivery", func() bool {
			return operator.ZCard(r.ctx, rediskey.For(r.key(n)).Outbox()).Val() == 0
		})
	}
	expect.Equal(t, "deliveries", delivered.Load(), breakerSessions)
	return came
}
