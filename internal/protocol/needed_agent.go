package protocol

import (
	"strconv"
	"strings"
	"time"
)

// neededFor is how long it counts that no living worker ran a session's agent. Workers look again every
// unservedPause.
const neededFor = 4 * unservedPause

// NeededAgent returns the agent that no living worker ran when one looked last, from a record's field
// needs. "": there is none, that was too long ago, or a turn was claimed or has ended since.
func NeededAgent(needs string, turn, now time.Time) string {
	agent, at, _ := strings.Cut(needs, " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	if looked := time.UnixMilli(ms); err != nil || now.Sub(looked) > neededFor || !looked.After(turn) {
		return ""
	}
	return agent
}
