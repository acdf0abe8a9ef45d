package worker

import "time"

// pause is a wait that grows with each failure in a row.
type pause struct{ next time.Duration }

func newPause() *pause { return &pause{next: 50 * time.Millisecond} }

func (p *pause) reset() { p.next = 50 * time.Millisecond }

func (p *pause) wait(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(p.next):
	}
	p.next = min(2*p.next, 2*time.Second)
}
