package protocol

import (
	"encoding/json"

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
