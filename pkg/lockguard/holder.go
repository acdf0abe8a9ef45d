package lockguard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrHeld says that another holds the lock. The error is a [*HeldError].
var ErrHeld = errors.New("lock held")

// ErrFree says that nobody holds the lock.
var ErrFree = errors.New("lock free")

// Holder tells who holds a lock, as Redis saw it when the call was made.
type Holder struct {
	Owner string    // the holder's WithOwner; empty if unknown
	Since time.Time // when it got the lock, by Redis' clock; zero if unknown
	Fence int64     // its fencing token

	// Left is how long it has the lock without a renewal. Negative: for ever, because
	// another program set the key.
	Left time.Duration

	Waiting int // how many wait in line; only from [Guard.Holder]
}

// HeldError is an [ErrHeld] that tells who holds the lock.
type HeldError struct {
	Name   string
	Holder Holder
}

func (e *HeldError) Error() string {
	if e.Holder.Owner == "" {
		return fmt.Sprintf("lock %q is held", e.Name)
	}
	return fmt.Sprintf("lock %q is held by %s since %s", e.Name, e.Holder.Owner, e.Holder.Since.UTC().Format(time.RFC3339))
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Holder returns who holds a lock, or [ErrFree].
func (g *Guard) Holder(ctx context.Context, name string) (Holder, error) {
	if err := checkName(name); err != nil {
		return Holder{}, err
	}
	keys := keysOf(name)
	r, err := holderScript.Run(ctx, g.client, keys[:keysToWaiters])
	if err == nil && len(r) == 0 {
		err = ErrFree
	}
	if err != nil {
		return Holder{}, fmt.Errorf("holder of lock %q: %w", name, err)
	}
	h := holderOf(r)
	h.Waiting = int(r.Int(4))
	return h, nil
}
