package protocol

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
)

// Retry requeues the turn after a failure, or parks one with steps, to be claimed again after wait. It stores
// the error's text with the message. The first entries of the turn's journal stay, as many as left says, or
// with -1 all, and its steps.
func (c *Claim) Retry(ctx context.Context, cause error, wait time.Duration, left int) error {
	turn, why, stays := c.Turn(), text(cause.Error()), ""
	if left >= 0 {
		stays = strconv.Itoa(left)
	}
	e := session.Event{Type: session.EventTurnRetry, Error: stream.AgentFailed, Code: session.CodeAgentFailed, Detail: why, Attempt: turn.Attempt, RetryIn: session.Millis(wait)}
	return c.requeue(ctx, e, requeueing{wait: wait, attempts: fmt.Sprint(turn.Attempt), failure: CutText(why, failureMost), left: stays})
}

// Requeue requeues an interrupted turn, or parks one with steps, to be claimed again at once. It does not
// count as an attempt. reason becomes the reason of the resume mark. Its journal stays; first write what is not in
// it yet.
func (c *Claim) Requeue(ctx context.Context, reason string) error {
	return c.requeue(ctx, session.Event{Type: session.EventTurnRequeued, Reason: reason}, requeueing{reason: reason})
}

// Park parks the turn, which has a step, until its open question with this number is decided, at most for
// wait. It is neither an attempt nor an interruption. First write what is not in the journal yet. waits is the key
// of a wait, whose end followers are shown to wait for; "": the user's.
func (c *Claim) Park(ctx context.Context, question int, waits string, wait time.Duration) error {
	wait = max(min(wait, ParkMost, c.consumer.cfg.TranscriptTTL/2), time.Millisecond)
	return c.requeue(ctx, session.Event{Type: session.EventTurnRequeued, Reason: session.ReasonParked, Name: waits}, requeueing{wait: wait, waits: strconv.Itoa(question)})
}

// ParkMost is how long a turn is parked for a question. Then it runs for a moment, and is parked again.
const ParkMost = 7 * 24 * time.Hour

// requeueing is why a turn is requeued or parked: the script's arguments of these names.
type requeueing struct {
	wait                                   time.Duration
	attempts, failure, left, reason, waits string
}

func (c *Claim) requeue(ctx context.Context, e session.Event, why requeueing) error {
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
		Wait: why.wait.Milliseconds(), Attempts: why.attempts, Why: why.failure, Event: event, Start: start,
		JournalTTL: cfg.TranscriptTTL.Milliseconds(), Left: why.left, Reason: why.reason, StuckLimit: int64(cfg.StuckLimit), Age: cfg.Age().Milliseconds(), Progressed: c.hasProgressed(),
		Waits: why.waits, IDs: taskIDs(parts),
	})
	if err != nil {
		return err
	}
	if r.Status == scripts.Requested {
		return requested(r.Request)
	}
	return c.released(ctx, r.Now, r.At)
}

// Progressed notes that the turn's run has ended a tool that no earlier one had: its drain does not count towards
// Config.StuckLimit.
func (c *Claim) Progressed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progressed = true
}

func (c *Claim) hasProgressed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.progressed
}

// MarkResult is the result of Mark for one claim.
type MarkResult struct {
	Claim *Claim
	Err   error // wraps lease.ErrLost if another worker owns the session

	// Starting: the agent has not started, so there is nothing to interrupt. The turn is not
	// marked, and Promote refuses to start it.
	Starting bool
}

// Mark is called at the end of a drain's timeout, before the turns are interrupted. It sets the
// resume mark of turns in the phase running, and keeps the others from starting.
func (c *Consumer) Mark(ctx context.Context, claims []*Claim, reason string) []MarkResult {
	marks := make([]MarkResult, len(claims))
	calls := scripts.Mark.Each(ctx, c.rdb, len(claims), func(i int) ([]string, scripts.MarkArgs) {
		k, o := claims[i].owner()
		return scripts.MarkKeys(k), scripts.MarkArgs{Owner: o, TTL: c.ttl(), Reason: reason, StuckLimit: int64(c.cfg.StuckLimit), Age: c.cfg.Age().Milliseconds(), Progressed: claims[i].hasProgressed()}
	})
	for i, call := range calls {
		status := scripts.Mark.Result(call).Status
		marks[i] = MarkResult{Claim: claims[i], Err: call.Err, Starting: status == scripts.Starting}
		// Perhaps the turn has just ended, which is no loss. Renewals detect a real one.
		if call.Err == nil && status == scripts.Lost {
			marks[i].Err = fmt.Errorf("mark %s: %w", claims[i].session, lease.ErrLost)
		}
	}
	return marks
}
