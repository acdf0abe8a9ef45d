package protocol

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"turnstile/internal/protocol/scripts"
	"turnstile/internal/stream"
	"turnstile/pkg/session"
)

// Retry requeues the turn after a failure, or parks one with steps, to be claimed again after wait. It stores the error's
// text with the message. The first entries of the turn's journal stay, as many as left says, or with -1
// all, and its steps. entries are those that stay, for a worker of the version before.
func (c *Claim) Retry(ctx context.Context, cause error, wait time.Duration, left int, entries ...session.Entry) error {
	partial, err := c.partial(entries)
	if err != nil {
		return err
	}
	turn, why, stays := c.Turn(), text(cause.Error()), ""
	if left >= 0 {
		stays = strconv.Itoa(left)
	}
	e := session.Event{Type: session.EventTurnRetry, Error: stream.AgentFailed, Code: session.CodeAgentFailed, Detail: why, Attempt: turn.Attempt, RetryIn: session.Millis(wait)}
	return c.requeue(ctx, e, wait, fmt.Sprint(turn.Attempt), CutText(why, failureMost), partial, stays)
}

// Requeue requeues an interrupted turn, or parks one with steps, to be claimed again at once. It does not count as an
// attempt. reason becomes the reason of the resume mark. Its journal stays; first write what is not in
// it yet. entries are all of them, for a worker of the version before.
func (c *Claim) Requeue(ctx context.Context, reason string, entries ...session.Entry) error {
	partial, err := c.partial(entries)
	if err != nil {
		return err
	}
	return c.requeue(ctx, session.Event{Type: session.EventTurnRequeued, Reason: reason}, 0, "", "", partial, "")
}

func (c *Claim) requeue(ctx context.Context, e session.Event, wait time.Duration, attempts, failure, partial, left string) error {
	cfg, turn := c.consumer.cfg, c.Turn()
	parts, _ := c.split(nil)
	e.Turn, e.Fence, e.Messages, e.Keeps = turn.ID, turn.Fence, ids(parts), c.stands()
	start, err := c.unsentStart()
	if err != nil {
		return err
	}
	event, err := marshal(e)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	defer c.ends()()
	defer c.consumer.readers.Wrote(c.session)
	k, o := c.owner()
	r, err := own(ctx, c, false, scripts.Requeue, scripts.RequeueKeys(k), scripts.RequeueArgs{
		Prefixes: scripts.PrefixesOf(c.session), Owner: o, Stream: c.consumer.stream,
		Wait: wait.Milliseconds(), Attempts: attempts, Why: failure, Event: event, Start: start,
		Content: partial, PartialTTL: cfg.TranscriptTTL.Milliseconds(), Left: left, Reason: e.Reason, StuckLimit: int64(cfg.StuckLimit), Parks: cfg.Parks(), IDs: taskIDs(parts),
	})
	if err != nil {
		return err
	}
	if r.Status == scripts.Requested {
		return requested(r.Request)
	}
	return c.released(ctx, r.Now, r.At)
}
