package session

import "encoding/json"

// stateVersion is the schema version of a State.
const stateVersion = 1

// State is what an agent has asked to keep between its turns, stored beside its
// session. It is of use only as long as the transcript is the one that the agent
// knows: counts of entries tell, as they tell for warm agents.
type State struct {
	V         int    `json:"v"`
	SessionID string `json:"session_id"`

	// Entries is how many the transcript had when the turn began that kept it, and
	// After how many it has once that turn has ended well.
	Entries int64 `json:"entries"`
	After   int64 `json:"after"`

	Data json.RawMessage `json:"data"`
}

// Encode is the state as it is stored.
func (s State) Encode() (string, error) {
	s.V = stateVersion
	return encode(s)
}

// StateFor reads a stored state for a turn that finds so many entries in the
// transcript. Nil: there is none, it cannot be read, or it is of another
// conversation or of another state of this one.
func StateFor(text, sessionID string, entries int64) json.RawMessage {
	var s State
	if json.Unmarshal([]byte(text), &s) != nil || s.V != stateVersion || s.SessionID != sessionID {
		return nil
	}
	if entries != s.Entries && entries != s.After {
		return nil
	}
	return s.Data
}
