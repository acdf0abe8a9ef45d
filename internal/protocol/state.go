package protocol

import (
	"context"
	"encoding/json"

	"turnstile/internal/stored"
)

// Keep stores what the turn's agent wants to find again in the session's next
// turns, and replaces what it had kept; nil: nothing is kept any more. entries is
// how many the turn will write if it ends well, all of them under its own id. What
// another writes to the transcript makes it void, and so does the transcript's end.
func (c *Claim) StoreState(ctx context.Context, data json.RawMessage, entries int) error {
	cfg, turn, text := c.consumer.cfg, c.Turn(), ""
	if data != nil {
		var err error
		s := stored.State{
			SessionID: turn.SessionID, Turn: turn.ID, Entries: turn.Entries, After: turn.Entries + int64(entries), Data: data,
		}
		if text, err = s.Encode(); err != nil {
			return err
		}
	}
	_, err := c.move(ctx, keepMove, true, "content", text, "state_ttl", cfg.TranscriptTTL.Milliseconds())
	return err
}
