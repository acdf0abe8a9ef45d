package worker

import (
	"context"
	"fmt"
	"time"

	"turnstile/pkg/agent"
)

// parks says when a turn that waits for a decision gives up its worker.
type parks struct {
	after  time.Duration // 0: never
	cap    *parkedCap
	drains <-chan struct{} // closed when the worker drains: then at once
	leave  func()          // interrupts a turn that waits and cannot be parked, for the drain
	steps  *steps
	seat   *seat // for questions without a Key
}

// parkRetry is how soon a turn is parked that could not be, because a step was running.
const parkRetry = time.Second

// when returns a channel that receives when the turn that waits with this key is to be parked: not while a
// started step has no end. nil: never. A drain does not wait for a decision: a turn that cannot be parked leaves.
func (p parks) when(ctx context.Context, key string) <-chan struct{} {
	if key == "" || p.after <= 0 {
		go func() {
			select {
			case <-p.drains:
				p.leave()
			case <-ctx.Done():
			}
		}()
		return nil
	}
	now := make(chan struct{})
	go func() {
		timer := time.NewTimer(p.after)
		defer timer.Stop()
		drains := p.drains
		for {
			select {
			case <-timer.C:
			case <-drains:
				drains = nil
			case <-ctx.Done():
				return
			}
			switch ready := p.steps.hold(false); {
			case ready && p.cap.take(ctx):
				select {
				case now <- struct{}{}:
				case <-ctx.Done():
				}
				return
			case ready && drains == nil:
				p.leave()
				return
			}
			timer.Reset(parkRetry)
		}
	}()
	return now
}

// note makes the turn one with steps, in its first run with this question: its journal keeps the decision. It is
// no progress. No step of an agent has such a key.
func (p parks) note(key string) error {
	if !validKey(key) {
		return fmt.Errorf("%w: the key %.100q of a question or wait is no line of 1 to %d bytes", agent.ErrStep, key, stepKeyMost)
	}
	return p.steps.note("\x00" + key)
}

// parkedError is the error of a question, or of a wait, that goes on without a worker.
type parkedError struct {
	number int
	left   time.Duration // until it is over
	waits  string        // the key of the wait; "": a question
}

func (parkedError) Error() string { return agent.ErrParked.Error() }

func (parkedError) Unwrap() error { return agent.ErrParked }
