package command

import (
	"sync"
	"time"

	"turnstile/internal/process/guardian"
)

// lender passes the renewals of a lease to a guardian. It checks often enough to pass on each of
// them long before the deadline that the guardian knows.
type lender struct {
	process *guardian.Process

	mu       sync.Mutex
	leaseEnd func() time.Time // nil: no lease
	timer    *time.Timer
	ended    bool
}

func (l *lender) lend(leaseEnd func() time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.leaseEnd = leaseEnd
	if leaseEnd == nil {
		l.timer = nil
		l.process.Unlease()
		return
	}
	l.feed()
}

// feed sends the guardian the lease's present deadline. l.mu is held.
func (l *lender) feed() {
	deadline := l.leaseEnd()
	wait := time.Second
	if !deadline.IsZero() {
		l.process.Renew(deadline)
		wait = max(time.Until(deadline)/3, 10*time.Millisecond)
	}
	var timer *time.Timer // identifies the current loan: the same lease may be lent again
	timer = time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.ended && l.timer == timer {
			l.feed()
		}
	})
	l.timer = timer
}

func (l *lender) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.timer != nil {
		l.timer.Stop()
	}
}
