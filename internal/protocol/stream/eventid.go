package stream

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"turnstile/pkg/session"
)

// EventID is an event's place in its session's stream: the ID of the entry, which is Redis' clock
// in ms and a number within that millisecond, and the event's index among those of the entry. The
// zero value is before every event.
type EventID struct {
	ms, seq uint64
	index   int // wholeEntry: after all events of the entry
}

// wholeEntry is the index of an ID that names a whole entry.
const wholeEntry = math.MaxInt

var eventIDPattern = regexp.MustCompile(`^([0-9]{1,20}-[0-9]{1,20})(?:\.([0-9]))?$`)

// ParseEventID reads an ID such as 1795227266293-0.1. Without the index it is the place after the
// whole entry, and 0-0 the place before every event. The error wraps session.ErrInvalid.
func ParseEventID(text string) (id EventID, err error) {
	if parts := eventIDPattern.FindStringSubmatch(text); parts != nil {
		ms, seq, _ := strings.Cut(parts[1], "-")
		if id.ms, err = strconv.ParseUint(ms, 10, 64); err == nil {
			id.seq, err = strconv.ParseUint(seq, 10, 64)
		}
		if id.index = wholeEntry; parts[2] != "" {
			id.index = int(parts[2][0] - '0')
		}
		if err == nil && id.Entry() == (EventID{}).Entry() {
			return EventID{}, nil
		}
		if err == nil {
			return id, nil
		}
	}
	return EventID{}, fmt.Errorf("%w event id %.100q: it has the form 1795227266293-0.0", session.ErrInvalid, text)
}

// eventID returns the ID of the event with that index in an entry.
func eventID(entry string, index int) string { return entry + "." + strconv.Itoa(index) }

// After reports whether id is after other in the stream.
func (id EventID) After(other EventID) bool {
	switch {
	case id.ms != other.ms:
		return id.ms > other.ms
	case id.seq != other.seq:
		return id.seq > other.seq
	}
	return id.index > other.index
}

// Entry returns the ID of the stream's entry: 0-0 for the place before every event.
func (id EventID) Entry() string { return fmt.Sprintf("%d-%d", id.ms, id.seq) }

// At is the time of the entry, by Redis' clock in ms.
func (id EventID) At() int64 { return int64(min(id.ms, math.MaxInt64)) }
