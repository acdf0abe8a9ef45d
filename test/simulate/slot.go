package simulate

import (
	"fmt"
	"time"
)

// slot is a worker's place: the process that runs in it is replaced when it ends.
type slot struct {
	name string
	rng  *random
	ends chan ending
	now  *process // guarded by life.mu
}

// ending is how a process is to end.
type ending int

const (
	drained ending = iota
	restarted
	killed
)

func newSlot(l *life, name string) *slot {
	return &slot{name: name, rng: newRandom(l.seed, name), ends: make(chan ending)}
}

// keep runs processes, one after the other, until the life is over.
func (l *life) keep(s *slot) {
	sleep(l.ctx, s.rng.upTo(time.Second))
	for n := 1; l.ctx.Err() == nil; n++ {
		p := startProcess(l, fmt.Sprint(s.name, ".", n))
		if p == nil {
			sleep(l.ctx, time.Second)
			continue
		}
		l.setProcess(s, p)
		var how ending
		select {
		case how = <-s.ends:
		case <-l.ctx.Done():
		}
		l.setProcess(s, nil)
		switch how {
		case killed:
			p.kill(s.rng.chance(2))
			sleep(l.ctx, s.rng.about(3*time.Second))
		case restarted:
			p.end(p.worker.StopToRestart)
		default:
			p.end(p.worker.Stop)
		}
	}
}

func (l *life) setProcess(s *slot, p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.now = p
}

// process returns one of the running processes, or nil.
func (l *life) process() *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slots[l.rng.below(len(l.slots))].now
}
