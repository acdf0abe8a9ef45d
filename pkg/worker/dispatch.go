package worker

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"turnstile/internal/backoff"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
)

const (
	// popBlock is how long one wait for work lasts. A drain may have to wait as long, because a
	// pop in progress cannot be cancelled.
	popBlock = time.Second

	// claimBatch bounds how many sessions are claimed in one round trip: while Redis claims many,
	// the ends of other turns wait.
	claimBatch = 8

	// survivePatience is how long a drain waits, after its last turn, to store in Redis that this
	// worker outlived the turns that lost their leases.
	survivePatience = time.Second
)

// dispatcher claims sessions for free slots and runs them.
type dispatcher struct {
	queue  *protocol.Consumer
	roster *roster
	pool   *warmPool
	life   *lifecycle
	duties duties
	log    *slog.Logger

	wakeUps *lostWakeUps
	slots   *slots
	pauses  *pauses
	clock   loopClock // of the loop, see Healthy
	loop    sync.WaitGroup

	mu       sync.Mutex
	closed   bool           // set by a drain: prefer claims nothing more
	claiming sync.WaitGroup // claims in flight
	sessions sync.WaitGroup

	surviving sync.WaitGroup // calls of survive
}

// start starts the loop, which ends with the intake.
func (d *dispatcher) start() { d.loop.Go(d.run) }

// close stops prefer. The end of the intake does not.
func (d *dispatcher) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// wait returns when no claim is in flight, no session runs, and Redis has stored which lost turns
// this worker outlived, or has not replied for survivePatience. Call it after the end of the
// intake.
func (d *dispatcher) wait() {
	d.loop.Wait()
	d.claiming.Wait()
	d.sessions.Wait()
	told := make(chan struct{})
	go func() {
		d.surviving.Wait()
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(survivePatience):
	}
}

// run is the loop. While it waits for a session it holds no slot, so that prefer can find one.
// The next pop does not wait for a claim: with a busy Redis each of the two takes long.
func (d *dispatcher) run() {
	defer d.clock.rest()
	failures, claimed := 0, make(chan error, 1)
	for {
		d.clock.rest()
		most, aside := d.pauses.admit(d.life.intake.Done())
		free := d.slots.take(d.life.intake, most)
		if free == 0 {
			return
		}
		d.clock.step()
		sessions, err := d.queue.Pop(d.life.work, free)
		if err == nil && len(sessions) == 0 && !aside {
			d.slots.free(free)
			d.clock.step()
			sessions, err = d.queue.Await(d.life.work, popBlock)
			free = d.slots.try(len(sessions))
		}
		if err == nil && (d.life.draining() || free < len(sessions)) {
			d.clock.step()
			err = d.queue.PutBack(d.life.work, sessions)
			d.wakeUps.add(err)
			sessions = nil
		}
		d.slots.free(free - len(sessions))
		if len(sessions) > 0 {
			start := d.claiming.Go
			if most == 1 { // the next pop knows what this one tries
				start = func(claim func()) { claim() }
			}
			start(func() {
				err := d.claim(sessions)
				select {
				case claimed <- err:
				default: // the loop has not read another claim's result yet
				}
			})
		}
		if err == nil {
			worked := len(sessions) == 0 // Redis works: the pop succeeded, and no claim is open
			select {
			case err = <-claimed:
				worked = err == nil
			default:
			}
			if worked {
				failures = 0
			}
		}
		if err != nil {
			d.wakeUps.add(err)
			d.log.Warn("claiming sessions failed, trying again", "error", err)
			d.duties.failed(dutyClaim, err)
			failures++
			backoff.Redis.Wait(d.life.intake.Done(), failures)
		}
	}
}

// prefer claims a session with a warm agent on this worker if a slot is free, before other workers
// find the session in the ready index.
func (d *dispatcher) prefer(session string) {
	if !d.pool.has(session) || d.slots.try(1) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return // the worker ends
	}
	d.claiming.Go(func() {
		ok, err := d.queue.Prefer(d.life.work, session)
		if !ok {
			d.slots.free(1)
		} else {
			err = d.claim([]string{session})
		}
		if err != nil {
			d.log.Debug("the session with a warm agent was not claimed", "session", session, "error", err)
			d.duties.failed(dutyClaim, err)
		}
	})
}

// claim claims sessions, for which the caller has taken slots, and runs those that it gets.
func (d *dispatcher) claim(sessions []string) error {
	claims, err := d.queue.Claim(d.life.work, sessions)
	rest := slices.Clone(sessions)
	d.wakeUps.add(err)
	if err != nil { // the claims may have been made, and only their reply lost
		d.life.run(func() {
			if err := d.queue.Unclaim(d.life.work); err != nil && d.life.work.Err() == nil {
				d.log.Warn("claims without a reply were not taken back: their sessions wait for their leases to end", "error", err)
			}
		})
	}
	if errors.Is(err, protocol.ErrBroken) { // other sessions need not wait
		d.log.Error("a session cannot be claimed; it is checked again in a while", "error", err)
		d.duties.failed(dutyClaim, err)
		err = nil
	}
	for _, c := range claims {
		d.pauses.tries(c.Turn().Agent)
		s := d.roster.join(c, newSeat(d.slots))
		d.sessions.Go(func() {
			last := s.run()
			d.roster.leave(s, last)
			if last == outcomeLost && errors.Is(c.Lease().Held(), lease.ErrLost) {
				d.survive(c)
			}
			c.Lease().End()
			d.left(c.Leave(d.life.work))
			s.seat.end()
		})
		rest = slices.DeleteFunc(rest, func(session string) bool { return session == c.Session() })
	}
	d.left(d.queue.Leave(d.life.work, rest...))
	d.slots.free(len(rest))
	return err
}

// left logs that sessions could not release what they hold of limits.
func (d *dispatcher) left(err error) {
	if err != nil && d.life.work.Err() == nil {
		d.log.Warn("what sessions hold of limits was not released: it ends with the leases", "error", err)
	}
}

// survive stores in Redis, once it can be reached, that this worker lives although it lost the
// claim. The turn has wound down, so its message did not kill the worker. This does not apply if
// Redis refused to store the turn's end: the message may have caused that.
func (d *dispatcher) survive(c *protocol.Claim) {
	d.surviving.Add(1)
	d.life.run(func() {
		defer d.surviving.Done()
		err := c.Survive(d.life.work)
		switch {
		case err == nil:
		case d.wakeUps.add(err):
			d.log.Warn("the session of a lost turn could not be woken, trying again", "session", c.Session(), "error", err)
		default:
			d.log.Warn("a lost turn may count as this worker's death", "session", c.Session(), "error", err)
		}
	})
}
