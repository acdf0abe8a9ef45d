package protocol

import (
	"context"
	"encoding/json"

	"turnstile/internal/protocol/scripts"
)

// StoreState replaces the agent state for the session's next turns; nil removes it. entries is how
// many entries the turn will append if it ends well. The state becomes void if another turn appends
// to the transcript, or if the transcript is replaced.
func (c *Claim) StoreState(ctx context.Context, data json.RawMessage, entries int) error {
	turn, text := c.Turn(), ""
	if data != nil {
		var err error
		s := agentState{
			TranscriptID: turn.TranscriptID, Turn: turn.ID, Entries: turn.Entries, After: turn.Entries + int64(entries), Data: data,
		}
		if text, err = s.encode(); err != nil {
			return err
		}
	}
	k, o := c.owner()
	_, err := own(ctx, c, true, scripts.StoreState, scripts.StoreStateKeys(k), scripts.StoreStateArgs{
		Owner: o, TTL: c.consumer.ttl(), Content: text, StateTTL: c.consumer.cfg.TranscriptTTL.Milliseconds(),
	})
	return err
}
