package protocol

import (
	"encoding/json"
	"strconv"
	"strings"
)

// notesMost is how many dropped messages a turn is told of, each with a line. What
// rings is told the same, see lua/notes.lua.
const notesMost = 50

// notes is what was stored of dropped messages when a turn was taken.
type notes struct {
	ids     int   // how many are named; a sender of an older version keeps them all
	omitted int64 // how many older ones there have ever been that nobody was told of
}

// drops takes what scripts answer of dropped messages: "omitted omitted_told ids", see
// lua/notes.lua. It is a courtesy to the agent: what cannot be read says nothing.
func (t *Turn) setDropped(answer string) {
	omitted, rest, _ := strings.Cut(answer, " ")
	told, list, _ := strings.Cut(rest, " ")
	var ids []string
	if json.Unmarshal([]byte(list), &ids) != nil || len(ids) == 0 {
		return
	}
	out, _ := strconv.ParseInt(omitted, 10, 64)
	known, _ := strconv.ParseInt(told, 10, 64)
	t.notes = notes{ids: len(ids), omitted: out}
	older := max(len(ids)-notesMost, 0)
	t.Dropped, t.Omitted = ids[older:], int(max(out-known, 0))+older
}

// told is of how many stored ids the agent knows that was told of the first n of
// Dropped.
func (t *Turn) told(n int) int {
	if n <= 0 || len(t.Dropped) == 0 {
		return 0
	}
	return t.notes.ids - len(t.Dropped) + min(n, len(t.Dropped))
}
