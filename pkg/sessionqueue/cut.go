package sessionqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/lockguard"
	"turnstile/pkg/session"
)

// partial is the entries of a turn so far, as they are stored beside it; "" if
// there are none.
func (h *Hold) partial(entries []session.Entry) (string, error) {
	if len(entries) == 0 {
		return "", nil
	}
	h.mu.Lock()
	p := session.Partial{Fence: h.turn.Fence, Turn: h.turn.ID, Messages: ids(h.part), Entries: entries}
	h.mu.Unlock()
	return p.Encode()
}

// Checkpoint stores what the running turn has done so far. The next claim finds
// it if the turn is cut off; its end removes it.
func (h *Hold) Checkpoint(ctx context.Context, entries []session.Entry) error {
	p, err := h.partial(entries)
	if err != nil {
		return err
	}
	c := h.consumer.cfg
	_, err = h.move(ctx, "checkpoint", checkpointScript, keysToLease, true,
		c.SentinelTTL.Milliseconds(), p, c.TranscriptTTL.Milliseconds())
	return err
}

// Past is what came before a turn.
type Past struct {
	Entries []session.Entry // of its transcript

	// Partial is what an earlier run of the same message had done when it was cut
	// off; nil if there was none.
	Partial *session.Partial

	// State is what the agent has kept, see Keep. Nil: nothing, or it does not fit
	// this transcript any more.
	State json.RawMessage

	// Dropped are the texts of Turn.Dropped, as far as they are still there.
	Dropped []string
}

// Past reads what came before the turn.
func (h *Hold) Past(ctx context.Context) (Past, error) {
	rdb, k, turn := h.consumer.rdb, rediskey.For(h.session), h.Turn()
	var lines *redis.StringSliceCmd
	var partial, state *redis.StringCmd
	dropped := make([]*redis.StringCmd, len(turn.Dropped))
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		lines = p.LRange(ctx, k.Transcript(turn.SessionID), 0, -1)
		partial = p.Get(ctx, k.Partial())
		state = p.Get(ctx, k.State())
		for i, id := range turn.Dropped {
			dropped[i] = p.HGet(ctx, k.Task(id), "msg")
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return Past{}, fmt.Errorf("read what came before turn %s: %w", turn.ID, err)
	}
	past := Past{Entries: session.DecodeEntries(lines.Val())}
	past.State = session.StateFor(state.Val(), turn.SessionID, turn.Entries, past.Entries)
	if p, ok := session.DecodePartial(partial.Val()); ok && p.Messages[0] == turn.Message.ID {
		past.Partial = &p
	}
	for _, cmd := range dropped {
		if task, err := parseTaskMessage([]byte(cmd.Val())); err == nil {
			if m, err := task.message(); err == nil {
				past.Dropped = append(past.Dropped, m.Text)
			}
		}
	}
	return past, nil
}

// Marked is what became of a hold's resume mark.
type Marked struct {
	Hold *Hold
	Err  error // wraps lockguard.ErrLost when the session is another's

	// Starting: there was no agent to cut off. The turn is not marked, and Promote
	// refuses to start it.
	Starting bool
}

// Mark is called when a drain's time is up, before the turns are interrupted: it
// marks those that run to be resumed, and keeps the others from starting. What
// counts is what runs at this moment.
func (c *Consumer) Mark(ctx context.Context, holds []*Hold, reason string) []Marked {
	marks := make([]Marked, len(holds))
	replies := c.pipeline(ctx, markScript, len(holds), func(i int) ([]string, []any) {
		h := holds[i]
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.keys[:keysToEvents], []any{
			rediskey.For(h.session).TaskPrefix(), h.token, h.turn.Fence, c.cfg.SentinelTTL.Milliseconds(), reason, c.cfg.StuckLimit,
		}
	})
	for i, r := range replies {
		marks[i] = Marked{Hold: holds[i], Err: r.err, Starting: r.str(0) == "starting"}
		// A turn that ended just now, or went on to the next, is no loss: renewals
		// see what is.
		if r.err == nil && r.str(0) == "lost" {
			marks[i].Err = fmt.Errorf("mark %s: %w", holds[i].session, lockguard.ErrLost)
		}
	}
	return marks
}
