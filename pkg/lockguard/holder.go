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

// Holder describes who holds a lock, as Redis saw it during the call.
type Holder struct {
	Owner string    // the holder's WithOwner; empty if unknown
	Since time.Time // when it took the lock, by Redis' clock; zero if unknown
	Fence int64     // its fencing token

	// Left is how long it keeps the lock without a renewal. It is negative if the key has no TTL,
	// because another program set it.
	Left time.Duration

	Waiting int // how many wait in line; only set by [Guard.Holder]
}

// HeldError is an [ErrHeld] that says who holds the lock.
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

// Holder returns who holds a lock. The error wraps [ErrFree] if nobody does.
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
	f := r.Named(holderFields...)
	h := holderOf(f)
	h.Waiting = int(f.Int("waiting"))
	return h, nil
}
