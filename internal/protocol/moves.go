package protocol

import (
	"context"
	"errors"
	"fmt"

	"turnstile/pkg/session"
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
func (h *Claim) Promote(ctx context.Context) error {
	if h.consumer.cfg.Immediate {
		return nil
	}
	r, err := h.move(ctx, promoteMove, true)
	if err != nil {
		return err
	}
	if r.status() == "refused" {
		return requested(r.text("by"))
	}
	h.mu.Lock()
	h.steer = r.is("steer")
	h.mu.Unlock()
	return nil
}

// SteerWaits reports whether Promote found a message that is to be steered into
// the turn, or Steer left some behind. For later ones there are signals and renewals.
func (h *Claim) SteerWaits() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.steer
}

// Emit appends events to the session's stream, after the turn's start if that
// was not announced before. Calls must not overlap.
func (h *Claim) Emit(ctx context.Context, events []session.Event) error {
	h.mu.Lock()
	if !h.announced {
		events = append([]session.Event{h.start()}, events...)
	}
	h.announced = true
	h.seq++
	seq := h.seq
	h.mu.Unlock()
	if len(events) == 0 {
		return nil
	}
	batch := make([]string, len(events))
	for i, e := range events {
		var err error
		if batch[i], err = marshal(e); err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
	}
	_, err := h.move(ctx, emitMove, true, "number", seq, "batch", batch)
	return err
}

// start is the event of the turn's start. h.mu is held.
func (h *Claim) start() session.Event {
	e := session.Event{Type: session.EventTurnStarted, SessionID: h.turn.SessionID, Turn: h.turn.ID, Fence: h.turn.Fence, Reset: h.turn.Reset, Resume: h.turn.Resume}
	for _, t := range h.turn.Messages() {
		e.Messages = append(e.Messages, t.Message.ID)
	}
	return e
}

// unannounced is the turn's start as JSON, or "" if it was told already: the end
// of a turn announces both.
func (h *Claim) unannounced() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.announced {
		return "", nil
	}
	text, err := marshal(h.start())
	if err != nil {
		return "", fmt.Errorf("encode event: %w", err)
	}
	return text, nil
}

// Title proposes a title for the session's transcript. It is not taken where a
// user has set one.
func (h *Claim) Title(ctx context.Context, title string) error {
	if err := h.lease.Held(); err != nil {
		return fmt.Errorf("title of %s: %w", h.session, err)
	}
	h.mu.Lock()
	keys, fence := h.keys, h.turn.Fence
	h.mu.Unlock()
	_, err := h.consumer.moves.Run(ctx, titleMove.Script, titleMove.keys(keys), h.args(titleMove, fence, "title", text(title))...)
	if err != nil {
		return fmt.Errorf("title of %s: %w", h.session, err)
	}
	return nil
}
