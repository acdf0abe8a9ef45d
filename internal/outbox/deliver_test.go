package outbox_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/outbox"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Records of a session arrive in order, whether the deliverer is told of them or finds them.
func TestOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(nil)
	var want []string
	for i := range 40 { // more than one Take returns
		want = append(want, fmt.Sprint("m", i))
	}
	r.answer(r.key(1), "bot", want[:38]...)
	r.due(r.key(1))
	v.deliverer()
	expect.List(t, "what was stored before", v.messages(38), want[:38]...)
	r.answer(r.key(1), "bot", want[38:]...)
	expect.List(t, "what came later", v.messages(2), want[38:]...)
	last := int64(0)
	for _, g := range v.posts {
		if g.sequence <= last || g.attempt != 1 || g.duplicate {
			t.Errorf("after sequence %d came %+v", last, g)
		}
		last = g.sequence
	}
	expect.Soon(t, "an empty outbox", func() bool { return r.stored(r.key(1)) == 0 })
	expect.Soon(t, "an empty index", func() bool { return !r.IsIn(rediskey.Outbox, r.key(1)) })
}

// Nothing overtakes a delivery that is to be tried again, whatever its receiver answered.
func TestNothingOvertakes(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 408, 500, 404, 422} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			v := r.receiver(func(g got) int {
				if g.message == "one" && g.attempt <= 2 {
					return status
				}
				return 200
			})
			r.answer(r.key(1), "bot", "one", "two", "three")
			r.due(r.key(1))
			v.deliverer()
			expect.List(t, "the deliveries", v.messages(5), "one", "one", "one", "two", "three")
		})
	}
}

// Sessions do not wait for one another.
func TestSessionsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release := make(chan struct{})
	v := r.receiver(func(g got) int {
		if g.session == r.key(1) {
			<-release
		}
		return 200
	})
	v.deliverer()
	r.answer(r.key(1), "bot", "slow", "after")
	r.answer(r.key(2), "bot", "quick")
	expect.Equal(t, "the first", v.next().message, "quick")
	close(release)
	expect.List(t, "the others", v.messages(2), "slow", "after")
}

// A record that is refused five times is a dead letter, and the line goes on.
func TestRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(func(g got) int {
		if g.message == "bad" {
			return 422
		}
		return 200
	})
	v.deliverer()
	r.answer(r.key(1), "bot", "one", "bad", "two")
	expect.List(t, "the attempts", v.messages(7), "one", "bad", "bad", "bad", "bad", "bad", "two")
	for i, g := range v.posts[1:6] {
		expect.Equal(t, "the attempt", g.attempt, i+1)
		expect.Equal(t, "a possible duplicate", g.duplicate, false)
	}
	expect.List(t, "the dead letters", r.dead(r.key(1)), "refused 5 times: 422 Unprocessable Entity")
	if _, _, err := (deliveries.Redrive{Session: r.key(1), Most: 10}).Do(r.ctx, r.rdb); err != nil {
		t.Fatal(err)
	}
	again := v.next()
	expect.Equal(t, "a possible duplicate after redrive", again.duplicate, false) // it was refused each time
	expect.Equal(t, "the id after redrive", again.id, v.posts[1].id)
	if again.sequence <= v.posts[6].sequence {
		t.Errorf("redriven with sequence %d", again.sequence)
	}
}

// Failures of other kinds do not count as refusals: one 422 after an outage is the first.
func TestRefusedAfterAnOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(func(g got) int {
		switch {
		case g.attempt <= 2*5:
			return []int{500, 429}[g.attempt%2]
		case g.attempt <= 2*5+4:
			return 422
		}
		return 200
	})
	v.deliverer()
	r.answer(r.key(1), "bot", "one")
	for range 15 {
		v.next()
	}
	expect.Soon(t, "the delivery", func() bool { return r.stored(r.key(1)) == 0 })
	expect.List(t, "the dead letters", r.dead(r.key(1)))
}

// A delivery that was given up after an attempt without an answer is a possible duplicate when it is
// redriven: its receiver may have handled it.
func TestRedrivenMayBeADuplicate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var redriven atomic.Bool
	v := r.receiver(func(g got) int {
		switch {
		case redriven.Load():
			return 200
		case g.attempt == 1:
			return 504
		}
		return 422
	})
	v.deliverer()
	r.answer(r.key(1), "bot", "one")
	for n := range 6 {
		expect.Equal(t, "a possible duplicate", v.next().duplicate, n > 0)
	}
	expect.Soon(t, "a dead letter", func() bool { return len(r.dead(r.key(1))) == 1 })
	redriven.Store(true)
	_, _, err := deliveries.Redrive{Session: r.key(1), Most: 10}.Do(r.ctx, r.rdb)
	expect.OK(t, err)
	again := v.next()
	expect.Equal(t, "the attempt after redrive", again.attempt, 1)
	expect.Equal(t, "a possible duplicate after redrive", again.duplicate, true)
}

// 410 disables the destination until an operator enables it.
func TestGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var working atomic.Bool
	v := r.receiver(func(got) int {
		if working.Load() {
			return 200
		}
		return 410
	})
	v.deliverer()
	r.answer(r.key(1), "bot", "one")
	expect.Equal(t, "the attempt", v.next().message, "one")
	state := func() deliveries.DestinationState {
		states, _, err := deliveries.Destinations(r.ctx, r.rdb)
		expect.OK(t, err)
		return states["bot"]
	}
	expect.Soon(t, "the destination to be disabled", func() bool { return state().Disabled })
	expect.Equal(t, "why", state().Why, "410 Gone")
	working.Store(true)
	r.answer(r.key(2), "bot", "two")
	r.Pass(50 * time.Millisecond)
	v.nothing("a disabled destination")
	expect.OK(t, deliveries.SetDestination(r.ctx, r.rdb, "bot", deliveries.DestinationState{}))
	r.Pass(1100 * time.Millisecond) // the deliverer's knowledge is as old
	r.due(r.key(1))
	r.due(r.key(2))
	ids := v.messages(2)
	slices.Sort(ids)
	expect.List(t, "after enabling", ids, "one", "two")
}

// A destination that this deliverer does not know is left to others.
func TestUnknownDestination(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(nil)
	var known atomic.Pointer[outbox.Destinations]
	known.Store(r.destinations(nil))
	counted := &counts{}
	r.deliverer(func(o *outbox.Options) { o.Destinations, o.Observer = known.Load, counted })
	r.answer(r.key(1), "bot", "m")
	expect.Soon(t, "the metric", func() bool { return counted.unknown.Load() > 0 })
	known.Store(r.destinations(map[string]string{"bot": v.url})) // the file is read again
	r.due(r.key(1))
	g := v.next()
	expect.Equal(t, "the attempt", g.attempt, 1)
	expect.Equal(t, "a possible duplicate", g.duplicate, false)
	expect.Soon(t, "the count", func() bool { return counted.delivered.Load() == 1 })
}

type counts struct{ unknown, delivered, dead, failed, refused, redis atomic.Int64 }

func (c *counts) DeliveryDone(_ string, delivered bool, _ time.Duration) {
	if delivered {
		c.delivered.Add(1)
	} else {
		c.dead.Add(1)
	}
}
func (c *counts) DeliveryFailed(string, string) { c.failed.Add(1) }
func (c *counts) DeliveryRefused(string)        { c.refused.Add(1) }
func (c *counts) UnknownDestinations(n int)     { c.unknown.Add(int64(n)) }
func (c *counts) DeliveryRedisFailed()          { c.redis.Add(1) }

// The wait that a receiver asks for is kept.
func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(func(g got) int {
		if g.attempt == 1 {
			return 429
		}
		return 200
	})
	v.header.Set("Retry-After", "1")
	v.deliverer()
	r.answer(r.key(1), "bot", "m")
	first, second := v.next(), v.next()
	if wait := second.at.Sub(first.at); wait < 990*time.Millisecond {
		t.Errorf("tried again after %s", wait)
	}
}

// A receiver that never answers costs one timeout, and the next attempt is a possible duplicate.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release := make(chan struct{})
	v := r.receiver(func(g got) int {
		if g.attempt == 1 {
			<-release
		}
		return 200
	})
	r.Cleanup(func() { close(release) })
	v.deliverer(func(o *outbox.Options) { o.Timeout = 50 * time.Millisecond })
	r.answer(r.key(1), "bot", "m")
	g := v.next()
	expect.Equal(t, "the attempt", g.attempt, 2)
	expect.Equal(t, "a possible duplicate", g.duplicate, true)
}

// If an answer cannot be stored, it is stored again: the record is not sent twice.
func TestLostAck(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(nil)
	faults := &redistest.Faults{}
	faults.LoseReply(actors.Script("ack"), 2)
	r.rdb.AddHook(faults)
	counted := &counts{}
	v.deliverer(func(o *outbox.Options) { o.Observer = counted })
	r.answer(r.key(1), "bot", "one", "two")
	expect.List(t, "the deliveries", v.messages(2), "one", "two")
	expect.Soon(t, "the outbox to be empty", func() bool { return r.stored(r.key(1)) == 0 })
	expect.Soon(t, "the failures", func() bool { return counted.redis.Load() >= 2 }) // Redis has stored it before they are known
	v.nothing("after both")
	expect.Equal(t, "failures", counted.redis.Load(), 2)
}

// Nothing is sent after a message's deliver_by: no retry, and no record that waited for the retries of an
// earlier one. Later records are delivered.
func TestDeliverBy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key, soon := r.key(1), time.Now().Add(300*time.Millisecond)
	v := r.receiver(func(g got) int {
		if g.message == "first" && time.Now().Before(soon.Add(100*time.Millisecond)) {
			return 503
		}
		return 200
	})
	for _, m := range []struct {
		id    string
		route wire.Route
	}{{"first", wire.Route{}}, {"late", wire.Route{By: soon}}, {"last", wire.Route{Within: time.Hour}}} {
		m.route.To, m.route.Context = "bot", []byte(`{"chat":7}`)
		_, err := r.Client.Session(key).Send(r.ctx, actors.With(turnstile.Message{ID: m.id, Text: "hello"}, actors.ReplyTo(m.route)))
		expect.OK(t, err)
	}
	r.answer(key, "bot")
	r.due(key)
	v.deliverer()
	for g := v.next(); g.message != "last"; g = v.next() {
		expect.Equal(t, "delivered", g.message, "first")
	}
	expect.List(t, "the dead letters", r.dead(key), "it was too late: its deliver_by was over")
}

// A delivery that fails at its time is not tried again, and is not tried any longer because its
// destination allows that.
func TestDeliverByWhileItFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key, soon := r.key(1), time.Now().Add(300*time.Millisecond)
	v := r.receiver(func(got) int { return 503 })
	_, err := r.Client.Session(key).Send(r.ctx, turnstile.Message{ID: "m", Text: "hello", ReplyTo: "bot", ReplyContext: []byte(`{"chat":7}`), ReplyBy: soon})
	expect.OK(t, err)
	r.answer(key, "bot")
	r.due(key)
	v.deliverer()
	expect.Soon(t, "a dead letter", func() bool { return len(r.dead(key)) == 1 })
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, g := range v.posts {
		if g.at.After(soon.Add(time.Second)) { // it is sent before its time, and may arrive after it
			t.Errorf("attempt %d arrived %s after its time", g.attempt, g.at.Sub(soon))
		}
	}
}
