package protocol

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"turnstile/pkg/session"
)

// EventID is the id of an entry in a session's stream: Redis' clock in ms, and a number within that
// millisecond.
type EventID struct{ ms, seq uint64 }

var eventIDPattern = regexp.MustCompile(`^[0-9]{1,20}-[0-9]{1,20}$`)

// ParseEventID reads an id such as 1795227266293-0. The error wraps session.ErrInvalid.
func ParseEventID(text string) (id EventID, err error) {
	if eventIDPattern.MatchString(text) {
		ms, seq, _ := strings.Cut(text, "-")
		if id.ms, err = strconv.ParseUint(ms, 10, 64); err == nil {
			id.seq, err = strconv.ParseUint(seq, 10, 64)
		}
		if err == nil {
			return id, nil
		}
	}
	return EventID{}, fmt.Errorf("%w event id %q: it is two numbers, as 1795227266293-0", session.ErrInvalid, text)
}

// After reports whether id is behind other in the stream.
func (id EventID) After(other EventID) bool {
	return id.ms > other.ms || id.ms == other.ms && id.seq > other.seq
}
