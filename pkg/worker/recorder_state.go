package worker

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"

	"turnstile/internal/protocol"
)

// agentState is the data that the turn's agent stores for the session's next turns.
type agentState struct {
	claim *protocol.Claim
	log   *slog.Logger

	mu     sync.Mutex
	wanted json.RawMessage // set by the agent in this turn; nil: not set
	saved  json.RawMessage // the stored state, as last known
}

// found records the stored state at the turn's beginning.
func (s *agentState) found(data json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = data
}

// want records the agent's new state, and reports whether it differs from the stored one.
func (s *agentState) want(data json.RawMessage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = slices.Clone(data)
	if s.wanted == nil {
		s.wanted = json.RawMessage("null")
	}
	return !bytes.Equal(s.wanted, s.saved)
}

// save stores the state during the turn, if the agent has set one that differs from the stored one.
func (s *agentState) save() {
	s.mu.Lock()
	data := s.wanted
	saved := data == nil || bytes.Equal(data, s.saved)
	s.mu.Unlock()
	if saved || !s.store(data, 0) {
		return
	}
	s.mu.Lock()
	s.saved = data
	s.mu.Unlock()
}

// end stores the state at the end of a turn that adds so many entries. The transcript and the
// state are not written by one script, so the state is valid for the transcript both before and
// after the turn's end. If it cannot be stored, the next turn's agent has only the history.
func (s *agentState) end(entries int, rolledBack bool) {
	s.mu.Lock()
	data := s.wanted
	s.mu.Unlock()
	switch {
	case rolledBack:
		data = nil // the stored state may contain the turn that was rolled back
	case data == nil: // the agent has set no state in this turn
		return
	}
	s.store(data, entries)
}

func (s *agentState) store(data json.RawMessage, entries int) bool {
	err := s.claim.StoreState(s.claim.Lease().Context(), data, entries)
	if err != nil {
		s.log.Warn("the agent's state was not stored", "error", err)
	}
	return err == nil
}
