package outbox_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"turnstile/internal/outbox"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A session whose delivery failed or was given up needs attention, with the destination, since when and how many. A sweep
// finds it, too, and forgets it when all is delivered.
func TestFailedDeliveryNeedsAttention(t *testing.T) {
	t.Parallel()
	for status, givesUp := range map[int]bool{503: false, 422: true} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var working atomic.Bool
			v := r.receiver(func(got) int {
				if working.Load() {
					return 200
				}
				return status
			})
			v.deliverer()
			key := r.key(1)
			r.answer(key, "bot", "a")
			if !givesUp {
				r.answer(key, "bot", "b")
			}
			attention := func() (found admin.SessionInfo) {
				page, err := r.Client.Page(r.ctx, admin.Query{State: admin.StateAttention})
				expect.OK(t, err)
				for _, s := range page.Sessions {
					found = s
				}
				return found
			}
			fails := func() bool {
				s := attention()
				return givesUp && s.GivenUp == 1 ||
					!givesUp && len(s.Failing) == 1 && s.Failing[0].Destination == "bot" && s.Failing[0].Count == 2 && time.Since(s.Failing[0].Since) < time.Minute
			}
			expect.Soon(t, "the session to need attention", fails)
			expect.OK(t, r.rdb.Del(r.ctx, rediskey.Attention).Err())
			r.Sweep()
			expect.Soon(t, "the sweep to find it", fails)
			working.Store(true)
			if givesUp {
				_, err := r.Client.Operate(key).Redrive(r.ctx, admin.All)
				expect.OK(t, err)
			}
			expect.Soon(t, "all to be delivered", func() bool { return r.stored(key) == 0 && len(r.dead(key)) == 0 })
			expect.Equal(t, "needs attention", attention().Session, "")
			r.Sweep()
			expect.Equal(t, "in the index", r.IsIn(rediskey.Attention, key), false)
		})
	}
}

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

// Destinations that never respond leave slots to the others, however many sessions wait for them.
func TestSlowDestinations(t *testing.T) {
	t.Parallel()
	for slow := 1; slow <= 3; slow++ {
		t.Run(strconv.Itoa(slow), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			arrived, release := make(chan struct{}, 100), make(chan struct{})
			holds := r.receiver(func(got) int {
				arrived <- struct{}{}
				<-release
				return 200
			})
			r.Cleanup(func() { close(release) })
			quick := r.receiver(nil)
			urls := map[string]string{"quick": quick.url}
			for n := range slow {
				urls["slow"+strconv.Itoa(n)] = holds.url
			}
			all := r.destinations(urls)
			r.deliverer(func(o *outbox.Options) {
				o.Destinations, o.Concurrency, o.Timeout = func() *outbox.Destinations { return all }, 8, time.Hour
			})
			for n := range 10 * slow {
				r.answer(r.key(n), "slow"+strconv.Itoa(n%slow), "m")
			}
			for range 8 * slow / (slow + 1) { // what they hold together
				<-arrived
			}
			r.answer(r.key(0), "quick", "one")
			expect.Equal(t, "the other destination's", quick.next().message, "one")
		})
	}
}

// breakerSessions is how many sessions pause a destination.
const breakerSessions = 3

// switcher is the URL of a receiver that answers 101 and holds every connection.
func switcher(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(outbox.SwitchProtocols(t))
	t.Cleanup(s.Close)
	return s.URL
}

// A receiver that answers 101 and holds the connection keeps no other destination waiting, and neither
// the deliverer's Stop.
func TestReceiverThatSwitchesProtocols(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(nil)
	all := r.destinations(map[string]string{"bot": v.url, "bad": switcher(t)})
	refused := r.key(2)
	r.answer(refused, "bad", "lost")
	r.due(refused)
	counted := &counts{}
	d := r.deliverer(func(o *outbox.Options) {
		o.Destinations, o.Observer = func() *outbox.Destinations { return all }, counted
	})
	expect.Soon(t, "three attempts", func() bool { return counted.failed.Load() >= 3 })
	for _, message := range []string{"one", "two"} {
		r.answer(r.key(1), "bot", message)
		expect.Equal(t, "delivered beside it", v.next().message, message)
	}
	stopped := make(chan bool, 1)
	go func() {
		d.Stop(context.Background())
		stopped <- true
	}()
	expect.Received(t, "the end of Stop", stopped)
	expect.Equal(t, "it is not lost", r.stored(refused), 1)
}

// Ping returns the error of such a receiver, and does not wait for it.
func TestPing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ok := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(ok.Close)
	all := r.destinations(map[string]string{"bad": switcher(t), "ok": ok.URL})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, err := outbox.Ping(ctx, all.Named("bad"))
	if err == nil || !strings.Contains(err.Error(), "101") || status != 0 || ctx.Err() != nil {
		t.Errorf("%d, %v", status, err)
	}
	status, err = outbox.Ping(ctx, all.Named("ok"))
	expect.OK(t, err)
	expect.Equal(t, "status", status, http.StatusOK)
}

// Redis is killed while a POST is in progress, and started again: nothing is lost, the order is
// kept, and the answer is stored as soon as Redis is back.
func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	server := acl.Server(t)
	r := rigOn(t, server.Client())
	r.Client, r.Worker = actors.NewClient(acl.Open(t, server, acl.Sender)), actors.NewWorker(t, acl.Open(t, server, acl.Worker), "one")
	entered, release := make(chan struct{}, 1), make(chan struct{})
	v := r.receiver(func(g got) int {
		if g.message == "b" && !g.duplicate {
			entered <- struct{}{}
			<-release
		}
		return 200
	})
	v.deliverer()
	r.answer(r.key(1), "bot", "a", "b", "c")
	expect.Received(t, "the POST of b", entered)
	server.Kill()
	close(release)
	expect.List(t, "before the restart", v.messages(2), "a", "b")
	server.Start()
	r.due(r.key(1)) // by the sweep
	expect.Soon(t, "all to be delivered", func() bool { return r.stored(r.key(1)) == 0 })
	v.check()
	expect.Equal(t, "the POSTs", len(v.posts), 3)
}
