package protocol

import (
	"context"
	"fmt"
	"strconv"

	"turnstile/internal/protocol/scripts"
	"turnstile/pkg/session"
)

// Emit appends events to the session's stream. The turn's first call also appends the turn's start.
// Calls must not overlap.
func (c *Claim) Emit(ctx context.Context, events []session.Event) error {
	undo := c.startUnsent()
	batch, number, err := c.nextBatch(events)
	if err != nil || len(batch) == 0 {
		return err
	}
	k, o := c.owner()
	_, err = own(ctx, c, true, scripts.Emit, scripts.EmitKeys(k), scripts.EmitArgs{
		Owner: o, Stream: c.consumer.stream, TTL: c.consumer.ttl(), Number: number, Batch: batch,
	})
	if err != nil {
		if !mayBeDone(err) { // else a follower may see the start twice
			undo()
		}
		return err
	}
	c.consumer.readers.Wrote(c.session)
	return nil
}

// startUnsent returns a function that undoes what the next batch notes of the turn's start, if it was not written.
func (c *Claim) startUnsent() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := c.startSent
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.startSent = sent
	}
}

// nextBatch returns the next batch of events, JSON, and its number within the turn. The turn's first has its
// start, too.
func (c *Claim) nextBatch(events []session.Event) (batch []string, number string, err error) {
	c.mu.Lock()
	if !c.startSent {
		events = append([]session.Event{c.start()}, events...)
	}
	c.startSent = true
	c.seq++
	number = strconv.Itoa(c.seq)
	c.mu.Unlock()
	batch = make([]string, len(events))
	for i, e := range events {
		if batch[i], err = marshal(e); err != nil {
			return nil, "", fmt.Errorf("encode event: %w", err)
		}
	}
	return batch, number, nil
}

// start returns the event of the turn's start. The caller holds c.mu.
func (c *Claim) start() session.Event {
	e := session.Event{
		Type: session.EventTurnStarted, TranscriptID: c.turn.TranscriptID, Turn: c.turn.ID, Fence: c.turn.Fence, Reset: c.turn.Reset, Resume: c.turn.Resume,
		Continues: c.turn.Continues, Keeps: c.turn.Keeps, Worker: c.consumer.cfg.Worker,
	}
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
