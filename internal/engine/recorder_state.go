package engine

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
	wanted json.RawMessage // what the agent wants stored; nil: it has not said
	saved  json.RawMessage // what is stored, as far as the turn knows
}

// found notes what is stored when the turn begins.
func (s *agentState) found(data json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = data
}

// want notes what the agent wants stored, and reports whether that is news.
func (s *agentState) want(data json.RawMessage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = slices.Clone(data)
	if s.wanted == nil {
		s.wanted = json.RawMessage("null")
	}
	return !bytes.Equal(s.wanted, s.saved)
}

// save stores it in mid-turn, if it is not.
func (s *agentState) save() {
	s.mu.Lock()
	data := s.wanted
	saved := bytes.Equal(data, s.saved)
	s.mu.Unlock()
	if saved || !s.store(data, 0) {
		return
	}
	s.mu.Lock()
	s.saved = data
	s.mu.Unlock()
}

// end stores it at the end of a turn that adds so many entries, for
// the transcript as it is before this end and as it will be behind it: the two are not
// written in one script. Without it the next turn's agent has the history alone.
func (s *agentState) end(entries int, rolledBack bool) {
	s.mu.Lock()
	data, saved := s.wanted, s.saved
	s.mu.Unlock()
	switch {
	case rolledBack && (data != nil || saved != nil):
		data = nil // what the agent knows of the turn cannot be taken back
	case data == nil: // an agent without state, or one that has not come to it
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
