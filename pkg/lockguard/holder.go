package lockguard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Phase says how far a holder is.
type Phase string

const (
	// Starting says that the lock is held, and what it is for has not begun.
	Starting Phase = "starting"
	// Running says that Promote was called.
	Running Phase = "running"
)

// ErrHeld says that the lock is another's. The error is a [*HeldError].
var ErrHeld = errors.New("lock held")

// ErrFree says that nobody holds the lock.
var ErrFree = errors.New("lock free")

// Holder tells who holds a lock, as Redis saw it when it was asked.
type Holder struct {
	Owner string    // the holder's WithOwner; empty if the record is not the holder's
	Since time.Time // when it got the lock, by Redis' clock; zero if unknown
	Phase Phase     // empty if unknown
	Fence int64     // its fence
	// Left is how long the hold lasts without a renewal; negative: for ever,
	// because something else than this package set the sentinel.
	Left    time.Duration
	Waiting int // how many are in the line; only from [Guard.Holder]
}

// HeldError is an [ErrHeld] that tells by whom.
type HeldError struct {
	Name   string
	Holder Holder
}

func (e *HeldError) Error() string {
	if e.Holder.Owner == "" {
		return fmt.Sprintf("lock %q is held", e.Name)
	}
	return fmt.Sprintf("lock %q is held by %s since %s (%s)",
		e.Name, e.Holder.Owner, e.Holder.Since.UTC().Format(time.RFC3339), e.Holder.Phase)
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Holder asks who holds a lock. It answers [ErrFree] if nobody does.
func (g *Guard) Holder(ctx context.Context, name string) (Holder, error) {
	if err := checkName(name); err != nil {
		return Holder{}, err
	}
	k := keysOf(name)
	values, err := holderScript.run(ctx, g.direct, 3, k.sentinel, k.run, k.waiters).Slice()
	if err == nil && len(values) == 0 {
		err = ErrFree
	}
	if err != nil {
		return Holder{}, fmt.Errorf("holder of lock %q: %w", name, err)
	}
	fields := fields{values: values}
	h := fields.holder(0)
	h.Waiting = int(fields.number(5))
	return h, fields.err
}
