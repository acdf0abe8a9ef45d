package stored

import (
	"encoding/json"

	"turnstile/pkg/session"
)

// stateVersion is the schema version of a State.
const stateVersion = 1

// State is what an agent has asked to keep between its turns, stored beside its
// session. It is of use only as long as the transcript is the one that the agent
// knows: counts of entries tell, as they tell for warm agents, and whose the last
// entry is.
type State struct {
	V         int    `json:"v"`
	SessionID string `json:"session_id"`
	Turn      string `json:"turn"` // the turn that kept it

	// Entries is how many the transcript had when the turn began that kept it, and
	// After how many it has once that turn has ended well.
	Entries int64 `json:"entries"`
	After   int64 `json:"after"`

	Data json.RawMessage `json:"data"`
}

// Encode is the state as it is stored.
func (s State) Encode() (string, error) {
	s.V = stateVersion
	return Encode(s)
}

// StateFor reads a stored state for a turn that finds history in the transcript,
// to which so many entries were written. Nil: there is none, it cannot be read, or it
// is of another conversation or of another state of this one.
func StateFor(text, sessionID string, entries int64, history []session.Entry) json.RawMessage {
	var s State
	if json.Unmarshal([]byte(text), &s) != nil || s.V != stateVersion || s.SessionID != sessionID || string(s.Data) == "null" {
		return nil
	}
	switch n := len(history); {
	case n == 0 && entries > 0: // the transcript has expired
		return nil
	case entries == s.Entries:
		return s.Data
	// A turn whose worker died before it could write has as many entries as the one
	// that then ran its message, which may have been another agent's.
	case entries == s.After && n > 0 && history[n-1].Turn == s.Turn:
		return s.Data
	}
	return nil
}
