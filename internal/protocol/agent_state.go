package protocol

import (
	"context"
	"encoding/json"

	"turnstile/internal/protocol/scripts"
	"turnstile/pkg/session"
)

// stateVersion is the schema version of an agentState.
const stateVersion = 1

// agentState is the data that an agent stores for its next turns. It is valid while the transcript
// is the one that the agent knows, by the counts of entries and the last turn.
type agentState struct {
	V            int    `json:"v"` // set by encode
	TranscriptID string `json:"session_id"`
	Turn         string `json:"turn"` // the turn that stored it

	// Entries is the length of the transcript when that turn started, After its length when the
	// turn succeeded.
	Entries int64 `json:"entries"`
	After   int64 `json:"after"`

	Data json.RawMessage `json:"data"`
}

// encode returns the state as it is stored.
func (s agentState) encode() (string, error) {
	s.V = stateVersion
	return marshal(s)
}

// stateFor returns the data of a stored state for a turn of transcriptID. history is the
// transcript before the turn, entries how many were written to it. It returns nil if there
// is no state, it cannot be read, or the transcript has changed since.
func stateFor(text, transcriptID string, entries int64, history []session.Entry) json.RawMessage {
	var s agentState
	if json.Unmarshal([]byte(text), &s) != nil || s.V != stateVersion || s.TranscriptID != transcriptID || string(s.Data) == "null" {
		return nil
	}
	switch n := len(history); {
	case n == 0 && entries > 0: // the transcript has expired
		return nil
	case entries == s.Entries:
		return s.Data
	// Without the comparison of turns, a turn that ran after its predecessor's worker died
	// unsaved would match: it has as many entries, but may have been another agent's.
	case entries == s.After && n > 0 && history[n-1].Turn == s.Turn:
		return s.Data
	}
	return nil
}

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
