package outbox

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/lease"
)

// maxTakes is how often a visit takes records before other sessions have their turn.
const maxTakes = 8

// visit is one deliverer's work on one session.
type visit struct {
	*Deliverer
	session string
	known   *Destinations

	mu     sync.Mutex
	parked []string  // destinations that are not tried again in this visit
	next   time.Time // when to visit the parked ones again; zero: none is parked
}

// visit delivers a session's records, and stores in the index when to visit it again. score is a due
// session's score, 0 for a noticed one.
func (d *Deliverer) visit(session string, score int64) {
	began := time.Now()
	d.refreshStates(began.Add(-statesAge))
	v := &visit{Deliverer: d, session: session, known: d.opts.Destinations()}
	if _, paused := v.lines(); paused > 0 {
		// A pause that ended before this session was taken from the index must not park it. After a
		// later end the session is found in the index.
		d.refreshStates(began)
	}
	at, err := v.run(score > 0)
	ctx := context.WithoutCancel(d.work) // also when the deliverer was cut short
	switch {
	case err != nil:
	case score > 0:
		err = deliveries.RescoreOutbox(ctx, d.rdb, session, score, at)
	case at > 0:
		err = deliveries.IndexOutbox(ctx, d.rdb, at, session)
	}
	if err != nil && d.work.Err() == nil {
		d.failed("deliver a session", err) // the sweep finds it
	}
}

// run returns when to visit the session again, in ms by Redis' clock; 0: never. whole: the session was
// taken from the index, so the visit must find out about all its lines.
func (v *visit) run(whole bool) (at int64, err error) {
	for takes := 0; ; takes++ {
		lines, paused := v.lines()
		sent := time.Now()
		taken, err := deliveries.TakeLines(v.work, v.rdb, v.session, lines, v.lease)
		if err != nil {
			return 0, err
		}
		got := time.Now()
		v.tellUnknown(taken.Unknown)
		v.tellForged(taken.Forged)
		if len(taken.Deliveries) == 0 {
			if taken.More() && takes < maxTakes && !v.stopping() {
				continue
			}
			if paused > 0 && taken.At > 0 {
				v.park(paused)
			} else if !whole && takes == 0 && taken.Unknown == 0 && !taken.More() {
				return 0, nil // the deliverer that has leased or tried its lines visits it again
			}
			return v.soonest(taken.Now, got, taken.At), nil
		}
		emptied := v.deliver(taken, sent, got)
		switch {
		case takes == maxTakes, v.stopping():
			v.park(0)
			return v.soonest(taken.Now, got, 0), nil
		case !whole && emptied:
			return v.soonest(taken.Now, got, 0), nil
		}
	}
}

// lines returns the destinations in the form of take. paused is the wait until the end of the first
// pause; 0: none is paused.
func (v *visit) lines() (lines []deliveries.Line, paused time.Duration) {
	for _, to := range v.known.list {
		wait := v.wait(to.Name)
		if wait > 0 && (paused == 0 || wait < paused) {
			paused = wait
		}
		lines = append(lines, deliveries.Line{Destination: to.Name, MaxAge: to.MaxAge, Paused: wait > 0 || slices.Contains(v.parked, to.Name)})
	}
	return lines, paused
}

// deliver delivers the lines concurrently. emptied: there is nothing left to take.
func (v *visit) deliver(taken deliveries.TakenLines, sent, got time.Time) (emptied bool) {
	lines := map[string][]deliveries.Delivery{}
	for _, r := range taken.Deliveries {
		lines[r.Destination] = append(lines[r.Destination], r)
	}
	emptied = true
	var all sync.WaitGroup
	for name, records := range lines {
		all.Go(func() {
			t := v.target(name)
			l := &line{visit: v, to: v.known.Named(name), target: t, now: taken.Now, last: taken.Last, got: got, trusted: sent.Add(lease.Trusted(v.lease))}
			end := l.deliver(records)
			v.mu.Lock()
			defer v.mu.Unlock()
			if end == lineParked {
				v.parked = append(v.parked, name)
			}
			emptied = emptied && end != lineMore
			if end == lineMore && len(lines) > 1 {
				v.noticed.add(v.session) // this visit waits for the other lines
			}
		})
	}
	all.Wait()
	return emptied
}

// tellUnknown counts lines that this deliverer cannot deliver, and logs the first.
func (v *visit) tellUnknown(n int) {
	if n > 0 {
		v.opts.Observer.UnknownDestinations(n)
		if !v.strange.Swap(true) {
			v.opts.Logger.Warn("a session has deliveries for a destination that is not in TURNSTILE_GATEWAY_DESTINATIONS_FILE here: they wait until one that knows it takes them", "session", v.session)
		}
	}
}

// tellForged logs and counts entries that were removed because no script can have stored them: a program
// with another Redis user did. They have no text that could be redriven.
func (v *visit) tellForged(destinations []string) {
	for _, name := range destinations {
		v.opts.Observer.DeliveryRefused(name)
	}
	if len(destinations) > 0 {
		v.opts.Logger.Warn("forged entries were removed from a session's outbox", "session", v.session, "entries", len(destinations), "destination", destinations[0])
	}
}

// park requests another visit after a time, plus or minus a quarter.
func (v *visit) park(after time.Duration) {
	at := time.Now().Add(time.Duration(float64(after) * (1 + rand.Float64()/4)))
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.next.IsZero() || at.Before(v.next) {
		v.next = at
	}
}

// soonest returns the earlier of at and the next visit of parked lines, by Redis' clock. now and got are
// Redis' clock and this machine's at the same moment.
func (v *visit) soonest(now int64, got time.Time, at int64) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.next.IsZero() {
		return at
	}
	parked := now + v.next.Sub(got).Milliseconds()
	if at == 0 {
		return parked
	}
	return min(at, parked)
}
