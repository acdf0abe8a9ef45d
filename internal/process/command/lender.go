package command

import (
	"sync"

	"turnstile/internal/process/guardian"
	"turnstile/pkg/agent"
)

// lender passes each renewal of a lease to a guardian at once, so that a worker that is stopped at any moment has
// told its guardian all it knew.
type lender struct {
	process *guardian.Process

	mu     sync.Mutex
	recall chan struct{} // closed at the end of the present loan; nil: there is none
	ended  bool
}

// lend begins a loan after the present one; nil: none.
func (l *lender) lend(lease agent.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return
	case l.recall != nil:
		close(l.recall)
		l.recall = nil
	}
	if lease == nil {
		l.process.Unlease()
		return
	}
	recall, renewed := make(chan struct{}), lease.Renewed()
	l.recall = recall
	l.process.Renew(lease.Deadline())
	go func() {
		for {
			select {
			case <-recall:
				return
			case <-renewed:
			}
			renewed = lease.Renewed()
			l.mu.Lock()
			if l.recall == recall {
				l.process.Renew(lease.Deadline())
			}
			l.mu.Unlock()
		}
	}()
}

func (l *lender) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.recall != nil {
		close(l.recall)
		l.recall = nil
	}
}
