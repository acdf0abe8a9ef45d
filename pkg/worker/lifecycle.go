package worker

import (
	"context"
	"sync"
	"time"
)

// lifecycle is the contract of everything that runs for a worker. An actor is a goroutine that ends
// soon after one of two contexts:
//
//	intake  ends when a drain begins: for actors that find new work
//	work    ends after the last turn: for actors that serve the turns
//
// All calls to Redis use work, so that a drain cancels no claim in flight. Both contexts may end
// before the start, and more than once.
type lifecycle struct {
	intake, work       context.Context
	endIntake, endWork context.CancelFunc
	actors             sync.WaitGroup
	began              time.Time // the start
}

// age is for how long the worker has run.
func (l *lifecycle) age() time.Duration { return time.Since(l.began) }

func newLifecycle() *lifecycle {
	var l lifecycle
	l.work, l.endWork = context.WithCancel(context.Background())
	l.intake, l.endIntake = context.WithCancel(l.work)
	return &l
}

// run starts an actor.
func (l *lifecycle) run(actor func()) { l.actors.Go(actor) }

// draining reports whether a drain has begun.
func (l *lifecycle) draining() bool { return l.intake.Err() != nil }

// stop ends the remaining actors and waits for them.
func (l *lifecycle) stop() {
	l.endWork()
	l.actors.Wait()
}

// oneAtATime is a lock that its holder keeps during a call to Redis. It is a channel, not a
// sync.Mutex: inside a bubble of testing/synctest (test/simulate) time does not pass while a
// goroutine waits for a mutex.
type oneAtATime chan struct{}

func newOneAtATime() oneAtATime { return make(oneAtATime, 1) }

func (c oneAtATime) lock()   { c <- struct{}{} }
func (c oneAtATime) unlock() { <-c }
