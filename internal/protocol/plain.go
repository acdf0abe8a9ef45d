package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// Most turns are of one message, in a session about which there is nothing out of
// the ordinary. For them there are scripts that do no more than such a turn needs,
// of many sessions at once. They answer "special" where they have done nothing,
// and the whole script is to be sent.

// claimPlain sends the plain claims of sessions, in one round trip. Senders have reap
// look at a session after ClaimGrace: a shorter lease is to be looked after sooner, and
// that is known before there is one. An error is about that; without replies nothing was
// claimed.
func (c *Consumer) claimPlain(ctx context.Context, attempts []*Claim) ([]*script.Call, error) {
	shared := []any{
		c.cfg.SentinelTTL.Milliseconds(), c.cfg.Worker, c.phase(),
		string(c.cfg.Line.Mode), c.cfg.Line.Cap, string(c.cfg.Line.Drop), time.Duration(c.cfg.Line.Debounce).Milliseconds(), flag(c.cfg.Warm),
		c.cfg.Limits.Task(),
	}
	calls := make([]*script.Call, len(attempts))
	for i, h := range attempts {
		k := rediskey.For(h.session)
		calls[i] = &script.Call{
			Script: claimPlainScript, Shared: shared,
			Keys: []string{
				k.Sentinel(), k.Run(), k.Followups(), k.Resume(), k.Partial(), k.Paused(), k.Scheduled(), k.Active(), k.Record(), k.Pending(),
			},
			Args: []any{k.TaskPrefix(), h.token, newSessionID()},
		}
	}
	var first []*script.Call
	if c.cfg.SentinelTTL < ClaimGrace {
		for some := range slices.Chunk(attempts, TimerBatch) {
			first = append(first, c.lookAfter(some))
		}
	}
	sent := c.moves.DoAfter(ctx, first, calls)
	var failed error
	for _, call := range first {
		failed = errors.Join(failed, call.Err)
	}
	if !sent {
		return nil, failed
	}
	return calls, failed
}

// plainEntries is how many entries a plain end of a turn has at most: Lua hands no
// more than some thousands to a command.
const plainEntries = 1000

// mayBePlain reports whether the worker knows of nothing about a turn that its
// plain end does not do, see lua/finish_plain.lua.
func (h *Claim) mayBePlain(end End) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return end.Status == session.StatusDone && len(h.turn.Dropped) == 0 && h.consumer.cfg.Retention >= time.Second &&
		!h.renewed && len(h.part) == 1 && h.part[0].task != "" && len(end.Entries) <= plainEntries
}

// finishPlain ends a turn of which mayBePlain is true. done is false if that was
// not so plain after all.
func (h *Claim) finishPlain(ctx context.Context, end End, w written) (done, more bool, err error) {
	last, sent, now := h.Turn(), time.Now(), h.redisNow()
	h.mu.Lock()
	p, keys, uncounted := h.part[0], h.keys, h.uncounted+1
	h.mu.Unlock()
	next := Turn{
		Session: h.session, SessionID: last.SessionID, Fence: max(now, last.Fence+1), Entries: last.Entries + int64(len(end.Entries)),
		Started: sent, StartedAt: time.UnixMilli(now),
	}
	fence := any(next.Fence)
	if end.Release {
		fence = ""
	}
	k, seconds, retention := rediskey.For(h.session), now/1000, int64(h.consumer.cfg.Retention/time.Second)
	a, err := h.endPlain(ctx, &script.Call{
		Script: finishPlainScript, Shared: h.consumer.plainShared,
		Keys: []string{
			k.Sentinel(), k.Run(), k.Followups(), k.Paused(), k.Scheduled(), k.Retry(), k.Events(), keys[transcriptKey],
			k.Pending(), k.Active(), k.Completed(), k.Processed(), keys[processedDayKey],
		},
		Args: append([]any{
			len(w.entries), k.TaskPrefix(), h.token, last.Fence, p.taskID, p.task + completion(retention, seconds), w.outcome,
			fence, now, seconds + retention, next.Entries, uncounted, w.start,
		}, w.entries...),
	})
	if err != nil {
		return false, false, fmt.Errorf("finish %s: %w", h.session, err)
	}
	switch a.Text(0) {
	case "released":
		h.lease.End()
		return true, false, nil
	case "next":
		h.mu.Lock()
		defer h.mu.Unlock()
		h.uncounted = uncounted % countEvery
		h.run(next, script.Result{[]any(a[1:])})
		return true, true, nil
	}
	return false, false, nil
}

// endPlain sends a plain end, together with others', until there is a reply.
func (h *Claim) endPlain(ctx context.Context, call *script.Call) (script.Result, error) {
	err := h.persist(ctx, func() error {
		h.consumer.moves.Do(ctx, call)
		return call.Err
	})
	return call.Result, err
}

// countEvery is how many ended messages are counted at once in asynq's statistics,
// as lua/finish_plain.lua does.
const countEvery = 10
