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

// Parking is why the owner of a turn that has not ended leaves it, and until when. Zero: it goes on at once.
type Parking struct {
	Wait time.Duration

	// Failed is the error of an attempt that is to be repeated after Wait. It is stored with the first message.
	Failed error

	// Interrupted is the reason of an interruption, for the resume mark. It is no attempt.
	Interrupted string

	// Question is the number of the open question for whose decision the turn waits, at most for Wait. That is
	// neither an attempt nor an interruption.
	Question int

	// Throttled: a provider of the agent asks for Wait. That is neither an attempt nor an interruption.
	Throttled bool

	// Key is the key of the wait whose end followers are shown to wait for; "": the user's decision.
	Key string
}

// ParkMost is how long a turn is parked for a question. Then it runs for a moment, and is parked again.
const ParkMost = 7 * 24 * time.Hour

// Park leaves the turn, which stays as it is, and releases the session: the next claim goes on with it. Its journal
// stays; first write what is not in it yet.
func (c *Claim) Park(ctx context.Context, p Parking) error {
	cfg, turn := c.consumer.cfg, c.Turn()
	parts, _ := c.split(nil)
	e := session.Event{Type: session.EventTurnRequeued, Turn: turn.ID, Fence: turn.Fence, Messages: ids(parts), Keeps: c.stands()}
	attempts, why, question := "", "", ""
	switch {
	case p.Failed != nil:
		attempts, why = strconv.Itoa(turn.Attempt), text(p.Failed.Error())
		e.Type, e.Error, e.Code, e.Detail = session.EventTurnRetry, stream.AgentFailed, session.CodeAgentFailed, why
		e.Attempt, e.RetryIn = turn.Attempt, session.Millis(p.Wait)
	case p.Question != 0:
		p.Wait = max(min(p.Wait, ParkMost, cfg.TranscriptTTL/2), time.Millisecond)
		question, e.Reason, e.Name = strconv.Itoa(p.Question), session.ReasonParked, p.Key
	case p.Throttled:
		e.Reason, e.RetryIn = session.ReasonThrottled, session.Millis(p.Wait)
	default:
		e.Reason = p.Interrupted
	}
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
	r, err := own(ctx, c, false, scripts.Park, scripts.ParkKeys(k), scripts.ParkArgs{
		Prefixes: scripts.PrefixesOf(c.session), Owner: o, Stream: c.consumer.stream,
		Wait: p.Wait.Milliseconds(), Attempts: attempts, Why: CutText(why, failureMost), Event: event, Start: start,
		JournalTTL: cfg.TranscriptTTL.Milliseconds(), Reason: p.Interrupted, StuckLimit: int64(cfg.StuckLimit), Age: cfg.Age().Milliseconds(), Progressed: c.hasProgressed(),
		Waits: question, Throttled: p.Throttled, IDs: taskIDs(parts),
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
