package outbox_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"turnstile/internal/outbox"
	"turnstile/internal/protocol/deliveries"
	"turnstile/test/expect"
)

// An hour of 500s, in which the destination's pauses are long, loses nothing and keeps the order.
func TestLongOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var working atomic.Bool
	v := r.receiver(func(got) int {
		if working.Load() {
			return 200
		}
		return 500
	})
	v.deliverer()
	for n := range 4 {
		r.answer(r.key(n), "bot", "a", "b")
	}
	expect.Soon(t, "many attempts", func() bool { return len(v.came) > 50 })
	working.Store(true)
	delivered := map[string][]string{}
	expect.Soon(t, "all to be delivered", func() bool {
		return r.stored(r.key(0))+r.stored(r.key(1))+r.stored(r.key(2))+r.stored(r.key(3)) == 0
	})
	ids, bodies := map[string]string{}, map[string]string{}
	for _, g := range v.posts {
		name := g.session + " " + g.message
		if ids[name] == "" {
			ids[name], bodies[name] = g.id, g.body
		}
		expect.Equal(t, "the id of "+name, g.id, ids[name])
		expect.Equal(t, "the body of "+name, g.body, bodies[name])
		if !slices.Contains(delivered[g.session], g.message) {
			delivered[g.session] = append(delivered[g.session], g.message)
		}
	}
	for n := range 4 {
		expect.List(t, r.key(n), delivered[r.key(n)], "a", "b")
	}
	states, _, err := deliveries.Destinations(r.ctx, r.rdb)
	expect.OK(t, err)
	expect.Equal(t, "the destinations that are paused still", len(states), 0)
}

// Failures of several sessions pause the destination for all, and its answer is stored.
func TestBreakerPauses(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403, 404, 500, 503, 302} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			v := r.receiver(func(got) int { return status })
			v.deliverer(func(o *outbox.Options) { o.BreakerPause = time.Hour })
			for n := range 3 {
				r.answer(r.key(n), "bot", "m")
			}
			state := func() deliveries.DestinationState {
				states, _, err := deliveries.Destinations(r.ctx, r.rdb)
				expect.OK(t, err)
				return states["bot"]
			}
			expect.Soon(t, "a pause", func() bool { return state().Paused })
			if s := state(); s.Disabled || s.Why[:3] != fmt.Sprint(status) || time.Until(time.UnixMilli(s.At)) < 30*time.Minute {
				t.Errorf("the state is %+v", s)
			}
			r.answer(r.key(4), "bot", "m")
			r.Pass(30 * time.Millisecond)
			for len(v.came) > 0 {
				if g := v.next(); g.session == r.key(4) {
					t.Errorf("an attempt during the pause: %+v", g)
				}
			}
		})
	}
}

// A session with a deleted chat does not stop the others.
func TestOneSessionFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(func(g got) int {
		if g.session == r.key(1) {
			return 404
		}
		return 200
	})
	v.deliverer(func(o *outbox.Options) { o.BreakerPause = time.Hour })
	r.answer(r.key(1), "bot", "m")
	for range 5 {
		expect.Equal(t, "the session", v.next().session, r.key(1))
	}
	r.answer(r.key(2), "bot", "m")
	for v.next().session != r.key(2) {
		t.Log("another attempt")
	}
	expect.Equal(t, "dead letters", len(r.dead(r.key(1))), 0)
}

// A record is given up at its age, also while its destination is paused.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(nil)
	expect.OK(t, deliveries.SetDestination(r.ctx, r.rdb, "bot", deliveries.DestinationState{Paused: true, Why: "test"}))
	r.answer(r.key(1), "bot", "old")
	r.Pass(30 * time.Millisecond)
	all := r.destinations(map[string]string{"bot": v.url})
	all.Named("bot").MaxAge = 20 * time.Millisecond
	r.due(r.key(1))
	r.deliverer(func(o *outbox.Options) { o.Destinations = func() *outbox.Destinations { return all } })
	expect.Soon(t, "a dead letter", func() bool { return len(r.dead(r.key(1))) == 1 })
	v.nothing("an old record")
}

// A destination that never responds leaves slots to the others.
func TestSlowDestination(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release := make(chan struct{})
	slow := r.receiver(func(got) int {
		<-release
		return 200
	})
	r.Cleanup(func() { close(release) })
	quick := r.receiver(nil)
	all := r.destinations(map[string]string{"slow": slow.url, "quick": quick.url})
	r.deliverer(func(o *outbox.Options) {
		o.Destinations, o.Concurrency, o.Timeout = func() *outbox.Destinations { return all }, 4, time.Hour
	})
	for n := range 8 {
		r.answer(r.key(n), "slow", "m")
	}
	r.answer(r.key(0), "quick", "one")
	expect.Equal(t, "the other destination's", quick.next().message, "one")
}

// breakerSessions is how many sessions pause a destination.
const breakerSessions = 3
