package sessionqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// What somebody asked of a turn. Errors of Promote and Requeue wrap one of them:
// the turn is to be finished with that status instead.
var (
	ErrStopAsked      = errors.New("stop was asked for")
	ErrInterruptAsked = errors.New("an interrupting message has arrived")
)

func asked(what string) error {
	switch what {
	case "stop":
		return ErrStopAsked
	case "interrupt":
		return ErrInterruptAsked
	}
	return nil
}

// Promote brings the turn from starting to running. It comes before the agent is
// started; on an error the agent must not be. ErrStopAsked: somebody has stopped
// the turn meanwhile.
func (h *Hold) Promote(ctx context.Context) error {
	if h.consumer.cfg.Immediate {
		return nil
	}
	reply, err := h.move(ctx, "promote", promoteScript, keysToEvents, true, h.consumer.cfg.SentinelTTL.Milliseconds())
	if err != nil {
		return err
	}
	if reply.str(0) == "refused" {
		return asked(reply.str(1))
	}
	return nil
}

// Emit appends events to the session's stream. Calls must not overlap.
func (h *Hold) Emit(ctx context.Context, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	h.mu.Lock()
	h.seq++
	seq := h.seq
	h.mu.Unlock()
	args := []any{h.consumer.cfg.SentinelTTL.Milliseconds(), seq, h.consumer.cfg.EventsCap}
	for _, e := range events {
		event, err := marshal(e)
		if err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		args = append(args, event)
	}
	_, err := h.move(ctx, "emit", emitScript, keysToEvents, true, args...)
	return err
}

// End is how a turn ended.
type End struct {
	Status  Status
	Reply   string
	Error   string          // why it did not end well
	Entries []session.Entry // what goes into the transcript

	// Release gives the sentinel up even if more messages wait.
	Release bool
}

// archives reports whether the turn's message becomes a dead letter.
func (e End) archives() bool { return e.Status != StatusDone && e.Status != StatusInterrupted }

// Finish ends the turn: ack or archive, transcript, reply and statistics in one
// script. Then either the next message is taken under the same sentinel and a
// new fence (more is true, and Turn tells what), or the hold is over.
func (h *Hold) Finish(ctx context.Context, end End) (more bool, err error) {
	args, err := h.finishArgs(end)
	if err != nil {
		return false, err
	}
	sent := time.Now()
	nkeys := keysToProcessed
	if end.archives() {
		nkeys = allKeys
	}
	reply, err := h.end(ctx, "finish", finishScript, nkeys, args...)
	if err != nil {
		return false, err
	}
	if reply.str(0) == "next" {
		h.begin(sent, reply.int(1), reply.int(2), reply.str(5), reply.int(4), reply.list(3))
		return true, nil
	}
	return false, h.released(ctx, reply)
}

func (h *Hold) finishArgs(end End) ([]any, error) {
	c := h.consumer.cfg
	turn := h.Turn()
	end.Error = text(end.Error)
	outcome, err := marshal(Event{
		Type: EventTurnEnded, SessionID: turn.SessionID, Turn: turn.ID, Fence: turn.Fence, Messages: []string{turn.Message.ID},
		Status: end.Status, Reply: end.Reply, Error: end.Error, DurationMS: time.Since(turn.Started).Milliseconds(),
	})
	if err != nil {
		return nil, fmt.Errorf("encode outcome: %w", err)
	}
	disposal, reason := "complete", end.Error
	if end.archives() {
		disposal = "archive"
		if reason == "" {
			reason = string(end.Status)
		}
	}
	args := make([]any, 0, 16+len(end.Entries))
	args = append(args,
		c.SentinelTTL.Milliseconds(), disposal, reason, int64(c.Retention/time.Second), outcome, c.EventsCap,
		len(end.Entries), c.TranscriptCap, c.TranscriptTTL.Milliseconds(), flag(end.Release), h.consumer.phase(), h.prefix,
		flag(end.Status == StatusDone), turn.SessionID, 1, completion(c.Retention, turn), h.taskID)
	for _, e := range end.Entries {
		entry, err := marshal(e)
		if err != nil {
			return nil, fmt.Errorf("encode entry: %w", err)
		}
		args = append(args, entry)
	}
	return args, nil
}

// Retry gives the turn back to the head of the line after a failure. It may be
// taken again after wait. The error's text is kept with the message.
func (h *Hold) Retry(ctx context.Context, cause error, wait time.Duration) error {
	turn, why := h.Turn(), text(cause.Error())
	return h.requeue(ctx, wait, fmt.Sprint(turn.Attempt), why, Event{
		Type: EventTurnRetry, Error: why, Attempt: turn.Attempt, RetryInMS: wait.Milliseconds(),
	})
}

// Requeue gives the turn back to the head of the line, to be taken again at
// once, and spends no attempt: its worker drains.
func (h *Hold) Requeue(ctx context.Context, reason string) error {
	return h.requeue(ctx, 0, "", "", Event{Type: EventTurnRequeued, Reason: reason})
}

func (h *Hold) requeue(ctx context.Context, wait time.Duration, attempts, failure string, e Event) error {
	turn := h.Turn()
	e.Turn, e.Fence, e.Messages = turn.ID, turn.Fence, []string{turn.Message.ID}
	event, err := marshal(e)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	reply, err := h.end(ctx, "requeue", requeueScript, keysToProcessed,
		h.prefix, wait.Milliseconds(), attempts, failure, event, h.consumer.cfg.EventsCap, h.taskID)
	if err != nil {
		return err
	}
	if reply.str(0) == "asked" {
		return asked(reply.str(1))
	}
	return h.released(ctx, reply)
}

// released ends the hold and, where more can be claimed, now or later, tells the
// workers. If that fails, reap and sweep find the session.
func (h *Hold) released(ctx context.Context, reply answer) error {
	h.lease.End()
	at, now := reply.int(1), reply.int(2)
	if at == 0 {
		return nil
	}
	// The lease's own context has just ended.
	ctx = context.WithoutCancel(ctx)
	if err := wake(ctx, h.consumer.rdb, now, h.consumer.grace(), wakeUp{h.session, at}); err != nil {
		return fmt.Errorf("released %s, but its waiting messages were not announced: %w", h.session, err)
	}
	return nil
}

// text is s as protobuf's strings have to be: an agent's stderr may hold any
// bytes, and asynq could not read the task any more.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// Renewal is what a renewal found.
type Renewal struct {
	Hold    *Hold
	Err     error // wraps lockguard.ErrLost when the session is another's
	Asked   error // ErrStopAsked, ErrInterruptAsked or nil, of the turn with Fence
	Fence   int64
	Waiting int // messages behind the turn
}

// Renew extends the sentinels of holds, in one round trip.
func (c *Consumer) Renew(ctx context.Context, holds []*Hold) []Renewal {
	sent := time.Now()
	renewals := make([]Renewal, len(holds))
	var owned []redis.Z
	replies := c.pipeline(ctx, renewScript, len(holds), func(i int) ([]string, []any) {
		h := holds[i]
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.keys[:keysToLease], []any{rediskey.For(h.session).TaskPrefix(), h.token, h.turn.Fence, c.cfg.SentinelTTL.Milliseconds()}
	})
	for i, reply := range replies {
		r := Renewal{Hold: holds[i], Err: reply.err}
		switch {
		case r.Err != nil:
		case reply.str(0) == "lost":
			if holds[i].lost(errLostToAnother) {
				r.Err = errLostToAnother
			}
		default:
			holds[i].lease.Extend(sent, c.cfg.SentinelTTL)
			r.Fence, r.Asked, r.Waiting = reply.int(1), asked(reply.str(2)), int(reply.int(3))
			owned = append(owned, c.ownedUntil(holds[i]))
		}
		renewals[i] = r
	}
	// Reap follows the sentinels by itself; this is for a session that it does not
	// know of. On an error the next renewal, or a sweep, puts it right.
	if len(owned) > 0 {
		_ = c.rdb.ZAddNX(ctx, rediskey.Owned, owned...).Err()
	}
	return renewals
}

// ownedUntil is when reap is to look after a hold: at its sentinel's end, by
// Redis' clock as far as the worker knows it.
func (c *Consumer) ownedUntil(h *Hold) redis.Z {
	t := h.Turn()
	end := t.StartedAt.Add(time.Since(t.Started) + c.cfg.SentinelTTL)
	return redis.Z{Score: float64(end.UnixMilli()), Member: h.session}
}
