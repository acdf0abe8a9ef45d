package engine

import (
	"errors"
	"fmt"
	"runtime/debug"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// errPanicked ends a turn in which something panicked.
var errPanicked = errors.New("panicked")

// panicked logs a panic with its stack, and is the error that the turn fails with.
func (t *turn) panicked(what string, p any) error {
	t.log.Error("a turn panicked and fails", "in", what, "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("%s %w: %v", what, errPanicked, p)
}

// contain is deferred by what runs beside the turn's own goroutine. A panic there
// ends this turn as failed. It must not end the process, which runs the turns of
// others: the message that caused it would end the next worker, too.
func (t *turn) contain(what string) {
	if p := recover(); p != nil {
		t.cancel(t.panicked(what, p))
	}
}

// runContained is run, and ends a turn as failed that panics.
func (t *turn) runContained(release func() bool) (more bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			more, err = false, t.endPanicked(t.panicked("the turn", p))
		}
	}()
	return t.run(release)
}

// endPanicked writes the end of a turn whose own goroutine has panicked, and gives the
// session to the next worker: what else of this turn may still run here is unknown. If
// it cannot, the sentinel runs out, and the message comes back as after a crash: a few
// times.
func (t *turn) endPanicked(cause error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = t.panicked("the end of a turn that had panicked", p)
		}
	}()
	t.cancel(cause)
	t.recorder.silence()
	t.steering.stop()
	if t.kept {
		t.dropAgent()
	} else {
		t.endAgent()
	}
	if t.hold.Turn().Fence != t.Fence {
		return cause // its end is written, and the next turn is not run here
	}
	_, err = t.hold.Finish(t.hold.Lease().Context(), protocol.End{
		Status: session.StatusFailed, Error: cause.Error(), Untaken: t.steering.untaken(), Release: true,
	})
	if err = t.stored(err); err == nil {
		t.status, t.failure = session.StatusFailed, cause
	}
	return err
}
