package protocol

import (
	"context"
	"errors"
)

// What somebody asked of a turn. Errors of Promote and Requeue wrap one of them:
// the turn is to be finished with that status instead.
var (
	ErrStopRequested      = errors.New("stop was asked for")
	ErrInterruptRequested = errors.New("an interrupting message has arrived")
	ErrRollbackRequested  = errors.New("a message has arrived that takes the turn back")
)

// ErrDraining is Promote's answer when a drain has come first: the turn is to be
// requeued.
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

// Promote brings the turn from starting to running. It comes before the agent is
// started; on an error the agent must not be. ErrStopAsked: somebody has stopped
// the turn meanwhile; ErrDraining: a drain has.
func (c *Claim) Promote(ctx context.Context) error {
	if c.consumer.cfg.Immediate {
		return nil
	}
	r, err := c.move(ctx, promoteMove, true)
	if err != nil {
		return err
	}
	if r.status() == "refused" {
		return requested(r.text("by"))
	}
	c.mu.Lock()
	c.steer = r.is("steer")
	c.mu.Unlock()
	return nil
}

// SteerWaits reports whether Promote found a message that is to be steered into
// the turn, or Steer left some behind. For later ones there are signals and renewals.
func (c *Claim) SteerWaits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steer
}
