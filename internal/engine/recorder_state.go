package engine

import (
	"bytes"
	"encoding/json"
	"slices"
)

// agentState is the data that the turn's agent stores for the session's next turns.
type agentState struct {
	wanted json.RawMessage // what the agent wants stored; nil: it has not said
	saved  json.RawMessage // what is stored, as far as the turn knows
}

// want notes what the agent wants stored.
func (s *agentState) want(data json.RawMessage) {
	s.wanted = slices.Clone(data)
	if s.wanted == nil {
		s.wanted = json.RawMessage("null")
	}
}

// unsaved is what is to be stored now, should the turn be interrupted; nil: it is stored.
func (s *agentState) unsaved() json.RawMessage {
	if bytes.Equal(s.wanted, s.saved) {
		return nil
	}
	return s.wanted
}

// saveState stores the agent's state in mid-turn.
func (r *recorder) saveState(data json.RawMessage) {
	if data == nil {
		return
	}
	if err := r.claim.Keep(r.claim.Lease().Context(), data, 0); err != nil {
		r.log.Warn("what the agent keeps was not stored", "error", err)
		return
	}
	r.mu.Lock()
	r.state.saved = data
	r.mu.Unlock()
}

// endState stores the agent's state at the end of a turn that adds so many entries, for
// the transcript as it is before this end and as it will be behind it: the two are not
// written in one script. Without it the next turn's agent has the history alone.
func (r *recorder) endState(entries int, rolledBack bool) {
	r.mu.Lock()
	s := r.state
	r.mu.Unlock()
	switch {
	case rolledBack && (s.wanted != nil || s.saved != nil):
		s.wanted = nil // what the agent knows of the turn cannot be taken back
	case s.wanted == nil: // an agent without state, or one that has not come to it
		return
	}
	if err := r.claim.Keep(r.claim.Lease().Context(), s.wanted, entries); err != nil {
		r.log.Warn("what the agent keeps was not stored", "error", err)
	}
}
