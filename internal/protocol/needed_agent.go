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
// needs. "": there is none, or that was too long ago.
func NeededAgent(needs string, now time.Time) string {
	agent, at, _ := strings.Cut(needs, " ")
	if ms, err := strconv.ParseInt(at, 10, 64); err != nil || now.Sub(time.UnixMilli(ms)) > neededFor {
		return ""
	}
	return agent
}
