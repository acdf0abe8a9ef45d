package protocol

import (
	"context"
	"fmt"

	"turnstile/pkg/session"
)

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
