package session

import (
	"encoding/json"
	"testing"
)

func TestStateIsOfOneTranscript(t *testing.T) {
	t.Parallel()
	text, err := State{SessionID: "a", Entries: 4, After: 7, Data: json.RawMessage(`{"id":"<x>"}`)}.Encode()
	if err != nil || text != `{"v":1,"session_id":"a","entries":4,"after":7,"data":{"id":"<x>"}}` {
		t.Fatal(text, err)
	}
	for _, c := range []struct {
		text, sessionID string
		entries         int64
		found           bool
	}{
		{text, "a", 4, true},  // the turn was cut off, or failed
		{text, "a", 7, true},  // it ended well
		{text, "a", 5, false}, // somebody else has written
		{text, "a", 8, false}, // it was undone
		{text, "b", 4, false},
		{"", "a", 0, false},
		{"{", "a", 0, false},
		{`{"v":2,"session_id":"a","data":1}`, "a", 0, false},
	} {
		if got := StateFor(c.text, c.sessionID, c.entries); (got != nil) != c.found || c.found && string(got) != `{"id":"<x>"}` {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
