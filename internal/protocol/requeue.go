package protocol

import (
	"context"
	"fmt"
	"time"

	"turnstile/pkg/session"
)

// Retry gives the turn back to the head of the line after a failure. It may be
// taken again after wait. The error's text is kept with the message. The next
// attempt begins anew, as this one has: inherited are the entries that it was to
// go on from, of an earlier run that was cut off.
func (c *Claim) Retry(ctx context.Context, cause error, wait time.Duration, inherited ...session.Entry) error {
	partial, err := c.partial(inherited)
	if err != nil {
		return err
	}
	turn, why := c.Turn(), text(cause.Error())
	e := session.Event{Type: session.EventTurnRetry, Error: why, Attempt: turn.Attempt, RetryInMS: wait.Milliseconds()}
	return c.requeue(ctx, e, wait, fmt.Sprint(turn.Attempt), CutText(why, failureMost), partial)
}

// Requeue gives the turn back to the head of the line, to be taken again at
// once, and spends no attempt: it was cut off, for the reason that its resume
// mark then has. entries are what it has done so far.
func (c *Claim) Requeue(ctx context.Context, reason string, entries ...session.Entry) error {
	partial, err := c.partial(entries)
	if err != nil {
		return err
	}
	return c.requeue(ctx, session.Event{Type: session.EventTurnRequeued, Reason: reason}, 0, "", "", partial)
}

func (c *Claim) requeue(ctx context.Context, e session.Event, wait time.Duration, attempts, failure, partial string) error {
	cfg, turn := c.consumer.cfg, c.Turn()
	parts, _ := c.split(nil)
	e.Turn, e.Fence, e.Messages = turn.ID, turn.Fence, ids(parts)
	start, err := c.unsentStart()
	if err != nil {
		return err
	}
	event, err := marshal(e)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	defer c.ends()()
	r, err := c.move(ctx, requeueMove, false,
		"wait", wait.Milliseconds(), "attempts", attempts, "why", failure, "event", event, "start", start,
		"content", partial, "partial_ttl", cfg.TranscriptTTL.Milliseconds(), "reason", e.Reason, "ids", taskIDs(parts))
	if err != nil {
		return err
	}
	if r.status() == "requested" {
		return requested(r.text("request"))
	}
	return c.released(ctx, r)
}
