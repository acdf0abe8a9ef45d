package exec

import (
	"time"

	"turnstile/internal/guardian"
	"turnstile/pkg/agent"
)

// leaseFeed passes the renewals of a lease on to a guardian. It looks often
// enough to see each of them long before the guardian's knowledge runs out.
type leaseFeed struct {
	lease agent.Lease
	timer *time.Timer
}

func newLeaseFeed(lease agent.Lease) leaseFeed {
	f := leaseFeed{lease, time.NewTimer(time.Hour)}
	if lease == nil {
		f.timer.Stop()
	} else {
		f.next(lease.Deadline())
	}
	return f
}

func (f leaseFeed) feed(p *guardian.Process) {
	deadline := f.lease.Deadline()
	if !deadline.IsZero() {
		p.Renew(deadline)
	}
	f.next(deadline)
}

func (f leaseFeed) next(deadline time.Time) {
	wait := time.Second
	if !deadline.IsZero() {
		wait = max(time.Until(deadline)/3, 10*time.Millisecond)
	}
	f.timer.Reset(wait)
}
