package turnlog

import (
	"bytes"
	"encoding/json"
)

// state is the data that the turn's agent stores for the session's next turns.
type state struct {
	wantedState json.RawMessage // set by the agent in this turn; nil: not set
	storedState json.RawMessage // as last known
}

// FoundState records the stored state of the agent at the turn's beginning.
func (l *Log) FoundState(data json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.storedState = data
}

// saveState stores the state during the turn, if the agent has set one that differs from the stored one.
func (l *Log) saveState() {
	l.mu.Lock()
	data := l.wantedState
	saved := l.over || data == nil || bytes.Equal(data, l.storedState)
	l.mu.Unlock()
	if saved || !l.storeState(data, 0) {
		return
	}
	l.mu.Lock()
	l.storedState = data
	l.mu.Unlock()
}

// KeepState lets the stored state outlive the entries of a turn that did not end well.
func (l *Log) KeepState() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wantedState == nil {
		l.wantedState = l.storedState
	}
}

// EndState stores the state at the end of a turn that adds so many entries. The transcript and the
// state are not written by one script, so the state is valid for the transcript both before and
// after the turn's end. If it cannot be stored, the next turn's agent has only the history.
func (l *Log) EndState(entries int, rolledBack bool) {
	l.mu.Lock()
	data := l.wantedState
	l.mu.Unlock()
	switch {
	case rolledBack:
		data = nil // the stored state may contain the turn that was rolled back
	case data == nil: // the agent has set no state in this turn
		return
	}
	l.storeState(data, entries)
}

func (l *Log) storeState(data json.RawMessage, entries int) bool {
	err := l.Store.StoreState(l.Context, data, entries)
	if err != nil {
		l.Logger.Warn("the agent's state was not stored", "error", err)
	}
	return err == nil
}
