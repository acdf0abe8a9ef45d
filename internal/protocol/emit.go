package protocol

import (
	"context"
	"fmt"

	"turnstile/internal/protocol/scripts"
	"turnstile/pkg/session"
)

// Emit appends events to the session's stream. The turn's first call also appends the turn's start.
// Calls must not overlap.
func (c *Claim) Emit(ctx context.Context, events []session.Event) error {
	c.mu.Lock()
	if !c.startSent {
		events = append([]session.Event{c.start()}, events...)
	}
	c.startSent = true
	c.seq++
	seq := c.seq
	c.mu.Unlock()
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
	k, o := c.owner()
	_, err := own(ctx, c, true, scripts.Emit, scripts.EmitKeys(k), scripts.EmitArgs{
		Owner: o, Stream: c.consumer.stream, TTL: c.consumer.ttl(), Number: fmt.Sprint(seq), Batch: batch,
	})
	if err == nil {
		c.consumer.readers.Wrote(c.session)
	}
	return err
}

// start returns the event of the turn's start. The caller holds c.mu.
func (c *Claim) start() session.Event {
	e := session.Event{Type: session.EventTurnStarted, TranscriptID: c.turn.SessionID, Turn: c.turn.ID, Fence: c.turn.Fence, Reset: c.turn.Reset, Resume: c.turn.Resume}
	for _, t := range c.turn.Messages() {
		e.Messages = append(e.Messages, t.Message.ID)
	}
	return e
}

// unsentStart returns the turn's start as JSON, for the script that ends the turn to append; "" if
// Emit has appended it.
func (c *Claim) unsentStart() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.startSent {
		return "", nil
	}
	text, err := marshal(c.start())
	if err != nil {
		return "", fmt.Errorf("encode event: %w", err)
	}
	return text, nil
}
