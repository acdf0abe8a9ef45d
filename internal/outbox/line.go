package outbox

import (
	"context"
	"errors"
	"math"
	"net"
	"time"

	"turnstile/internal/protocol/deliveries"
)

// ackPause is the pause before another attempt to store an answer.
const ackPause = 200 * time.Millisecond

// line is the records of one session to one destination, under one lease.
type line struct {
	*visit
	to      *Destination
	target  *target
	now     int64     // Redis' clock
	last    int64     // the highest sequence of a record of the session
	got     time.Time // this machine's clock at the same moment
	trusted time.Time // the lease may be trusted until then
}

// lineEnd is how a line was left.
type lineEnd int

const (
	lineEmpty  lineEnd = iota // and its lease ended
	lineMore                  // it may be leased again
	lineParked                // the time of its next visit is known
)

// deliver delivers records in their order.
func (l *line) deliver(records []deliveries.Delivery) lineEnd {
	if !l.acquire(l.target) {
		return l.giveBack(records[0], shareWait)
	}
	defer l.release(l.target)
	for _, r := range records {
		l.ages.see(l.session, l.to.Name, l.age(r))
		if l.stopping() {
			return l.giveBack(r, 0)
		}
		if wait := l.pausedFor(); wait > 0 {
			return l.giveBack(r, wait)
		}
		deadline := time.Now().Add(l.opts.Timeout)
		if deadline.After(l.trusted) {
			l.untried(r)
			return lineMore
		}
		why := l.to.refuses(r, l.last)
		switch {
		case why != "":
			l.opts.Observer.DeliveryRefused(l.to.Name)
		case r.By > 0 && l.age(r) >= l.life(r): // earlier records of its line took too long
			why = "it was too late: its deliver_by was over"
		}
		if why != "" {
			if ok, left := l.giveUp(r, why); !ok {
				return lineParked
			} else if !left {
				return lineEmpty
			}
			continue
		}
		probe, wait := l.target.breaker.admit(time.Now())
		if wait > 0 {
			return l.giveBack(r, wait)
		}
		r.Body = l.to.body(r)
		on, left := l.attempt(r, deadline, probe)
		if !on {
			return lineParked
		}
		if !left { // even if there were more records: an operator has deleted them
			return lineEmpty
		}
	}
	l.untried(records[len(records)-1]) // it was delivered: this returns the line's lease
	return lineMore
}

// pausedFor returns how long the destination is paused, by an operator or another deliverer.
func (l *line) pausedFor() time.Duration {
	l.refreshStates(time.Now().Add(-statesAge))
	return time.Until(l.states.pausedUntil(l.to.Name))
}

// age is the age of a record. Its sequence is when it was stored.
func (l *line) age(r deliveries.Delivery) time.Duration {
	return time.Duration(l.now-r.Sequence)*time.Millisecond + time.Since(l.got)
}

// life is the age at which a record is not delivered any more.
func (l *line) life(r deliveries.Delivery) time.Duration {
	if r.By == 0 {
		return l.to.MaxAge
	}
	const longest = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(r.By-r.Sequence, longest)) * time.Millisecond
}

// giveBack ends the lease before an attempt.
func (l *line) giveBack(r deliveries.Delivery, wait time.Duration) lineEnd {
	l.park(wait)
	l.untried(r)
	return lineParked
}

func (l *line) untried(r deliveries.Delivery) {
	l.ack(deliveries.Ack{Delivery: r, Verdict: deliveries.Untried})
}

// giveUp makes a dead letter of a record that must not be sent.
func (l *line) giveUp(r deliveries.Delivery, why string) (ok, left bool) {
	ack := deliveries.Ack{Delivery: r, Verdict: deliveries.GiveUp, Why: why}
	if ok, left = l.ack(ack); ok {
		l.done(ack)
	}
	return ok, left
}

// attempt sends one record and stores the answer. on: the next record may follow. left: there is one.
func (l *line) attempt(r deliveries.Delivery, deadline time.Time, probe bool) (on, left bool) {
	ctx, cancel := context.WithDeadline(l.work, deadline)
	answered := func(int) {}
	if l.opts.Trace != nil {
		r.TraceParent, answered = l.opts.Trace(ctx, l.session, l.to.Name, r.ID, r.Sequence, r.Attempt, r.Body)
	}
	a := l.poster.post(ctx, l.to, r)
	answered(a.status)
	cancel()
	if a.status == 0 && l.work.Err() != nil { // Stop was cut short: the destination did not fail
		l.target.breaker.cancel(probe)
		l.park(0)
		l.ack(deliveries.Ack{Delivery: r, Verdict: deliveries.Again, Unsure: a.sent, Why: "the deliverer was stopped"})
		return false, true
	}
	class, ack := classify(a), judge(l.retry, a, r, l.age(r), l.life(r))
	if ack.Verdict != deliveries.Delivered {
		l.opts.Observer.DeliveryFailed(l.to.Name, failure(a))
		l.opts.Logger.Debug("a delivery failed", "destination", l.to.Name, "session", l.session, "delivery", r.ID, "attempt", r.Attempt, "answer", a.why())
	}
	if ack.Verdict == deliveries.Again {
		l.park(ack.Wait)
	}
	ok, left := l.ack(ack)
	what, until := l.target.breaker.done(l.session, probe, class, time.Now())
	l.tell(what, until, class, a)
	if ok && ack.Verdict != deliveries.Again {
		l.done(ack)
	}
	return ok && ack.Verdict != deliveries.Again, left
}

// ack stores the verdict on a record. It repeats that while the lease may be trusted, because a lost
// verdict causes a second delivery. ok is false if the lease was lost.
func (l *line) ack(a deliveries.Ack) (ok, left bool) {
	ctx := context.WithoutCancel(l.work) // a deliverer that is cut short stores its verdicts
	for {
		ok, left, err := a.Do(ctx, l.rdb)
		if err == nil && ok && (a.Verdict == deliveries.Again || a.Verdict == deliveries.GiveUp) {
			_ = deliveries.NeedAttention(l.work, l.rdb, l.now+time.Since(l.got).Milliseconds(), l.session)
		}
		if err == nil {
			return ok, left
		}
		l.failed("store the answer to a delivery", err)
		if time.Now().Add(ackPause).After(l.trusted) || l.work.Err() != nil {
			l.park(0)
			return false, true
		}
		pause := time.NewTimer(ackPause)
		select {
		case <-pause.C:
		case <-l.work.Done():
		}
		pause.Stop()
	}
}

// tell informs all deliverers and the operator about the state of the destination that an answer shows.
func (l *line) tell(what change, until time.Time, c class, a answer) {
	found := deliveries.Finding{Destination: l.to.Name, Why: a.why()}
	log := l.opts.Logger.With("destination", l.to.Name, "answer", a.why())
	switch {
	case c == gone:
		found.Disabled = true
		log.Warn("a destination answered 410: deliveries stopped until an operator enables it")
	case what == opened || what == reopened:
		found.Pause = max(time.Until(until), time.Millisecond)
		log.Warn("a destination fails for several sessions: deliveries pause until a probe succeeds", "until", until)
	case what == closed:
		l.opts.Logger.Info("a paused destination works again", "destination", l.to.Name)
	default:
		return
	}
	if err := l.states.set(l.work, found); err != nil {
		l.failed("store a destination's state", err)
	}
}

// done reports a record that has left its outbox.
func (l *line) done(a deliveries.Ack) {
	l.ages.forget(l.session, l.to.Name)
	l.opts.Observer.DeliveryDone(l.to.Name, a.Verdict == deliveries.Delivered, l.age(a.Delivery))
	if a.Verdict == deliveries.GiveUp {
		l.opts.Logger.Warn("a delivery is a dead letter", "destination", l.to.Name, "session", l.session, "delivery", a.Delivery.ID, "reason", a.Why)
	}
}

// failure returns an answer's entry of Failures.
func failure(a answer) string {
	var timeout net.Error
	switch {
	case a.status/100 == 5:
		return "5xx"
	case a.status/100 == 4:
		return "4xx"
	case a.status > 0:
		return "3xx"
	case errors.As(a.err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return "network"
}
