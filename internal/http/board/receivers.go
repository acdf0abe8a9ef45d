package board

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
)

// receiver is a destination that does not take its deliveries.
type receiver struct {
	Name  string
	Count int64     // outcomes that wait for it, or will
	Since time.Time // when the first of them that waits was stored; zero: none does
	Error string    // of the last attempt, or why nothing is sent
	off   admin.Destination
	next  time.Time // of a session's next try, zero if unknown
}

// Next says when it is tried again.
func (r receiver) Next() string { return nextTry(r.off, r.next) }

// nextTry says when a delivery is tried again: at its next attempt, but not before its destination's pause ends.
func nextTry(off admin.Destination, next time.Time) string {
	switch {
	case off.Disabled, off.Paused && off.RetryAt.IsZero():
		return "nothing is sent until an operator enables the destination"
	case off.Paused && off.RetryAt.After(next):
		next = off.RetryAt
	}
	if when := ago(next); strings.HasPrefix(when, "in ") {
		return "next try " + when
	}
	return "next try now"
}

// lateFrom is the age of a delivery from which the page reports it.
const lateFrom = 10 * time.Second

// receivers returns the destinations that do not take their deliveries: those with an old one by the workers' last
// count, paused and disabled ones, and those that sessions report.
func receivers(counted map[string]admin.DestinationBacklog, off []admin.Destination, failing []gateway.Failing, now time.Time) []receiver {
	found := map[string]*receiver{}
	of := func(name string) *receiver {
		if found[name] == nil {
			found[name] = &receiver{Name: name}
		}
		return found[name]
	}
	for _, f := range failing {
		r := of(f.Destination)
		r.add(int64(f.Count), f.Since)
		r.Error = cmp.Or(r.Error, f.Error)
	}
	for _, d := range off {
		r := of(d.Name)
		r.off, r.Error = d, cmp.Or(d.Why, r.Error)
	}
	for name, b := range counted {
		if found[name] == nil && b.Oldest < lateFrom {
			continue
		}
		r := of(name)
		r.Count = max(r.Count, b.Count)
		if b.Oldest > 0 {
			r.add(0, now.Add(-b.Oldest))
		}
	}
	list := make([]receiver, 0, len(found))
	for _, r := range found {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b receiver) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (r *receiver) add(n int64, since time.Time) {
	r.Count += n
	if r.Since.IsZero() || since.Before(r.Since) {
		r.Since = since
	}
}

// delivery is a delivery of a session's page.
type delivery struct {
	admin.Delivery
	Next string // when it is tried again, "" if it is not the next of its destination
}

// readDeliveries reads the session's deliveries, and its destinations that do not take theirs.
func (b *Board) readDeliveries(v *visit, p *sessionPage) error {
	states := map[string]admin.Destination{}
	var own []admin.Destination // of this session
	for d, err := range b.deps.Admin.Session(v.session).Deliveries(v.work) {
		if err != nil {
			return err
		}
		if len(p.Deliveries) == 0 {
			off, err := b.deps.Admin.Destinations(v.work)
			if err != nil {
				return err
			}
			for _, d := range off {
				states[d.Name] = d
			}
		}
		if p.MoreDeliveries = len(p.Deliveries) == deliveriesShown; p.MoreDeliveries {
			break
		}
		first := !slices.ContainsFunc(p.Deliveries, func(o delivery) bool { return o.Destination == d.Destination && !o.GivenUp })
		shown := delivery{Delivery: d}
		if off, is := states[d.Destination]; first && !d.GivenUp {
			if is || d.Attempts > 0 {
				shown.Next = nextTry(off, d.NextAt)
			}
			if is {
				own = append(own, off)
			}
		}
		p.Deliveries = append(p.Deliveries, shown)
	}
	p.Receivers = receivers(nil, own, p.Failing, time.Now())
	for i := range p.Receivers {
		r := &p.Receivers[i]
		for _, d := range p.Deliveries {
			if d.Destination == r.Name && !d.GivenUp {
				r.next = d.NextAt
				r.add(0, d.At)
				r.Count = max(r.Count, 1)
				break
			}
		}
	}
	return nil
}
