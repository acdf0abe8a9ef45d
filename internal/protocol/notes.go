package protocol

import (
	"strconv"
	"strings"

	"turnstile/internal/text/boundedjson"
)

// notesMost is the most dropped messages that a note names, each in a line. The senders' scripts
// store as many, see lua/lib/notes.lua.
const notesMost = 50

// notes are the stored counts of dropped messages when a turn was claimed.
type notes struct {
	ids     int   // how many IDs are stored: more than a note names if another program wrote the record
	omitted int64 // how many older ones no note has named, in all
}

// setDropped reads the notes of dropped messages in a script's result: "omitted omitted_told ids",
// see lua/lib/notes.lua. If they cannot be read, the turn has none.
func (t *ClaimedTurn) setDropped(result string) {
	omitted, rest, _ := strings.Cut(result, " ")
	told, list, _ := strings.Cut(rest, " ")
	var ids []string
	if boundedjson.Unmarshal([]byte(list), &ids) != nil || len(ids) == 0 {
		return
	}
	out, _ := strconv.ParseInt(omitted, 10, 64)
	known, _ := strconv.ParseInt(told, 10, 64)
	t.notes = notes{ids: len(ids), omitted: out}
	older := max(len(ids)-notesMost, 0)
	t.Dropped, t.Omitted = ids[older:], int(max(out-known, 0))+older
}

// reported returns how many of the stored IDs finish may remove if the note named the first n of
// Dropped.
func (t *ClaimedTurn) reported(n int) int {
	if n <= 0 || len(t.Dropped) == 0 {
		return 0
	}
	return t.notes.ids - len(t.Dropped) + min(n, len(t.Dropped))
}
