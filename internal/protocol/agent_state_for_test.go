package protocol

import (
	"encoding/json"
	"testing"

	"turnstile/pkg/session"
)

func TestStateForMatchesTheTranscript(t *testing.T) {
	t.Parallel()
	text, err := agentState{TranscriptID: "a", Turn: "t4", Entries: 4, After: 7, Data: json.RawMessage(`{"id":"<x>"}`)}.encode()
	if err != nil || text != `{"v":1,"session_id":"a","turn":"t4","entries":4,"after":7,"data":{"id":"<x>"}}` {
		t.Fatal(text, err)
	}
	of := func(turns ...string) (entries []session.Entry) {
		for _, turn := range turns {
			entries = append(entries, session.Entry{Turn: turn})
		}
		return entries
	}
	for _, c := range []struct {
		text, transcriptID string
		entries            int64
		history            []session.Entry
		found              bool
	}{
		{text, "a", 4, of("t3"), true},        // the turn was interrupted, or failed
		{text, "a", 7, of("t3", "t4"), true},  // it ended well
		{text, "a", 7, of("t4", "t5"), false}, // it was interrupted, and another turn has written as many entries
		{text, "a", 5, of("t3"), false},       // another writer has added an entry
		{text, "a", 8, of("t3"), false},       // it was undone
		{text, "a", 4, nil, false},            // the transcript has expired
		{text, "a", 7, nil, false},
		{text, "b", 4, of("t3"), false},
		{"", "a", 0, nil, false},
		{"{", "a", 0, nil, false},
		{`{"v":2,"session_id":"a","data":1}`, "a", 0, nil, false},
		{`{"v":1,"session_id":"a","data":null}`, "a", 0, nil, false}, // the agent deleted its state
	} {
		if got := stateFor(c.text, c.transcriptID, c.entries, c.history); (got != nil) != c.found || c.found && string(got) != `{"id":"<x>"}` {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
