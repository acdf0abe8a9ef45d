package protocol

import (
	"context"
	"errors"

	"turnstile/internal/protocol/scripts"
)

// Promote, Park and GiveBack return one of these errors if that end of the turn was requested: finish it
// with that status instead.
var (
	ErrStopRequested      = errors.New("stop was requested")
	ErrInterruptRequested = errors.New("an interrupting message has arrived")
	ErrRollbackRequested  = errors.New("a message has arrived that takes the turn back")
)

// ErrDraining is Promote's error if a drain came first: park the turn.
var ErrDraining = errors.New("the worker's drain has begun to end turns")

func requested(what string) error {
	switch what {
	case "stop":
		return ErrStopRequested
	case "interrupt":
		return ErrInterruptRequested
	case "rollback":
		return ErrRollbackRequested
	case "drain":
		return ErrDraining
	}
	return nil
}

// Promote moves the turn from starting to running. Call it before the agent is started, and do not
// start the agent on an error. The error is ErrStopRequested, ErrInterruptRequested or
// ErrRollbackRequested if that was requested, ErrDraining if a drain came first.
func (c *Claim) Promote(ctx context.Context) error {
	if c.consumer.cfg.Immediate {
		return nil
	}
	k, o := c.owner()
	r, err := own(ctx, c, true, scripts.Promote, scripts.PromoteKeys(k), scripts.PromoteArgs{Owner: o, TTL: c.consumer.ttl()})
	if err != nil {
		return err
	}
	if r.Status == scripts.Refused {
		return requested(r.By)
	}
	c.mu.Lock()
	c.steer = r.Steer
	c.mu.Unlock()
	return nil
}

// SteerWaits reports whether Promote found a message to be steered into the turn, or Steer left
// some. Later ones are reported by signals and renewals.
func (c *Claim) SteerWaits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steer
}
