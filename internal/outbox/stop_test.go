package outbox_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"turnstile/internal/outbox"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Stop lets a POST finish and returns the line's lease: another deliverer continues at once.
func TestStop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	v := r.receiver(func(g got) int {
		if g.message == "one" {
			entered <- struct{}{}
			<-release
		}
		return 200
	})
	first := v.deliverer()
	r.answer(r.key(1), "bot", "one", "two")
	expect.Received(t, "the first POST", entered)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		first.Stop(context.Background())
	}()
	r.Pass(20 * time.Millisecond)
	select {
	case <-stopped:
		t.Error("it has stopped with a POST in progress")
	default:
	}
	close(release)
	<-stopped
	expect.List(t, "delivered by the first", v.messages(1), "one")
	v.nothing("a deliverer that has stopped")
	v.deliverer()
	g := v.next()
	expect.Equal(t, "delivered by the second", g.message, "two")
	expect.Equal(t, "a possible duplicate", g.duplicate, false)
	first.Stop(ended()) // twice
}

// A Stop that is cut short marks cancelled deliveries as possible duplicates.
func TestStopCutShort(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	v := r.receiver(func(g got) int {
		if g.attempt == 1 {
			entered <- struct{}{}
			<-release
		}
		return 200
	})
	r.Cleanup(func() { close(release) }) // before the receiver's end
	first := v.deliverer()
	r.answer(r.key(1), "bot", "one")
	expect.Received(t, "the first POST", entered)
	first.Stop(ended())
	v.deliverer()
	g := v.next()
	expect.Equal(t, "the attempt", g.attempt, 2)
	expect.Equal(t, "a possible duplicate", g.duplicate, true)
}

// A Stop that is cut short returns, whatever its deliveries wait for.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(func(got) int { return 500 })
	held := &holding{entered: make(chan struct{}, 1), release: make(chan struct{})}
	d := v.deliverer(func(o *outbox.Options) { o.Observer, o.Concurrency = held, 1 })
	r.Cleanup(func() { close(held.release) }) // before the deliverer's end
	r.answer(r.key(1), "bot", "one")
	expect.Received(t, "a failure", held.entered)
	d.Notice(r.key(2)) // waits for the slot
	faults := &redistest.Faults{}
	r.rdb.AddHook(faults)
	hangs := faults.Gate(redistest.Named("time"))
	stopped := make(chan bool, 1)
	go func() {
		d.Stop(ended())
		stopped <- true
	}()
	expect.Received(t, "the end of Stop", stopped)
	expect.Received(t, "a command that hangs", hangs.Arrived())
}

// holding is an observer that holds up a delivery.
type holding struct {
	counts
	entered, release chan struct{}
}

func (h *holding) DeliveryFailed(string, string) {
	select {
	case h.entered <- struct{}{}:
	default:
	}
	<-h.release
}

// Several deliverers share the work: each record comes once, in order.
func TestSeveralDeliverers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(nil)
	for range 3 {
		v.deliverer()
	}
	const sessions, each = 10, 6
	for i := range each {
		for n := range sessions {
			r.answer(r.key(n), "bot", fmt.Sprint("m", i))
		}
	}
	all := map[string][]string{}
	for range sessions * each {
		g := v.next()
		all[g.session] = append(all[g.session], g.message)
	}
	for key, ids := range all {
		expect.List(t, key, ids, "m0", "m1", "m2", "m3", "m4", "m5")
	}
	v.nothing("after all")
}

// A deliverer that was not started can be stopped.
func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, err := outbox.New(r.rdb, outbox.Options{Destinations: func() *outbox.Destinations { return r.destinations(nil) }})
	expect.OK(t, err)
	d.Stop(t.Context())
	if _, err := outbox.New(r.rdb, outbox.Options{Concurrency: -1}); err == nil {
		t.Error("bad options are accepted")
	}
}

// Records that are deleted while their line is delivered are not posted any more.
func TestDeletedRecords(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	k := rediskey.For(r.key(1))
	v := r.receiver(func(got) int {
		r.rdb.Del(r.ctx, k.Outbox(), k.Deliveries())
		return 200
	})
	r.answer(r.key(1), "bot", "one", "two", "three")
	r.due(r.key(1))
	v.deliverer()
	expect.Equal(t, "the first", v.next().message, "one")
	expect.Soon(t, "an empty index", func() bool { return !r.IsIn(rediskey.Outbox, r.key(1)) })
	v.nothing("after the deletion")
}

// After an operator has enabled a destination its deliveries go on at once, also those that a breaker
// has paused.
func TestEnable(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func(r *rig, fails *atomic.Bool) func() bool{
		"paused": func(r *rig, _ *atomic.Bool) func() bool {
			expect.OK(r, deliveries.SetDestination(r.ctx, r.rdb, "bot", deliveries.DestinationState{Paused: true, Why: "test"}))
			return func() bool { return true }
		},
		"by its breaker": func(r *rig, fails *atomic.Bool) func() bool {
			fails.Store(true)
			return func() bool {
				states, _, err := deliveries.Destinations(r.ctx, r.rdb)
				expect.OK(r, err)
				return states["bot"].Paused
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var fails atomic.Bool
			v := r.receiver(func(got) int {
				if fails.Load() {
					return 500
				}
				return 200
			})
			paused := pause(r, &fails)
			v.deliverer(func(o *outbox.Options) { o.BreakerPause = time.Hour })
			for n := range 5 {
				r.answer(r.key(n), "bot", "m")
				r.due(r.key(n))
			}
			expect.Soon(t, "a pause", paused)
			var due time.Time // of the first
			expect.Soon(t, "all to wait", func() bool {
				soonest := r.rdb.ZRangeWithScores(r.ctx, rediskey.Outbox, 0, 0).Val()
				if len(soonest) > 0 {
					due = time.UnixMilli(int64(soonest[0].Score))
				}
				return time.Until(due) > 30*time.Second
			})
			fails.Store(false)
			expect.OK(t, admin.NewClient(r.rdb).EnableDestination(r.ctx, "bot"))
			expect.Soon(t, "all to be delivered", func() bool {
				n := int64(0)
				for i := range 5 {
					n += r.stored(r.key(i))
				}
				return n == 0
			})
			if !time.Now().Before(due) {
				t.Error("they waited until they were due")
			}
		})
	}
}

// A destination that is enabled before its deliverer has read that its own breaker has paused it gets its
// deliveries, too.
func TestEnableBeforeTheNextRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const sessions = 3 // as many as open a breaker
	var came atomic.Int32
	all, working := make(chan struct{}), make(chan struct{})
	v := r.receiver(func(got) int {
		select {
		case <-working:
			return 200
		default:
		}
		if came.Add(1) == sessions { // no visit begins after the last failure
			close(all)
		}
		<-all
		return 500
	})
	for n := range sessions {
		r.answer(r.key(n), "bot", "m")
		r.due(r.key(n))
	}
	v.deliverer(func(o *outbox.Options) { o.BreakerPause = time.Hour })
	expect.Soon(t, "a pause", func() bool {
		states, _, err := deliveries.Destinations(r.ctx, r.rdb)
		expect.OK(t, err)
		return states["bot"].Paused
	})
	close(working)
	expect.OK(t, admin.NewClient(r.rdb).EnableDestination(r.ctx, "bot"))
	for n := range sessions {
		expect.Soon(t, "a delivery", func() bool { return r.stored(r.key(n)) == 0 })
	}
}
