package openai

import (
	"strconv"
	"strings"
	"time"
)

// A sequence number is made of a stored event's place in its session's stream, MS-SEQ.INDEX:
//
//	(MS - accepted + 1) * 2^21  +  SEQ * 2^9  +  INDEX * 2^5  +  N
//
// accepted is the time when the message was accepted, and N counts the events made of one stored event. So the
// numbers depend neither on trimmed events nor on the reader. They are below 2^53, which is exact in JavaScript.
// Events later than 49 days after the acceptance count up from there. Events before it, which are possible when
// Redis' clock is set back, count up from its millisecond.
const (
	perEvent = 5
	perEntry = perEvent + 4
	perMS    = 21
)

// The numbers of events without a stored event.
const (
	createdNumber int64 = 0
	queuedNumber  int64 = 1
	lastNumber    int64 = 1<<53 - 1 // the end, if the stream has none
)

// numberOf is the first number of a stored event, 0 if the ID is none.
func numberOf(id string, accepted time.Time) int64 {
	entry, index, _ := strings.Cut(id, ".")
	ms, seq, _ := strings.Cut(entry, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return 0
	}
	since := at - accepted.UnixMilli() + 1
	switch {
	case since <= 0:
		return 1 << perMS
	case since >= 1<<(53-perMS):
		return lastNumber - 1<<perMS
	}
	n, _ := strconv.ParseInt(seq, 10, 64)
	i, _ := strconv.ParseInt(index, 10, 64)
	return since<<perMS + min(n, 1<<(perMS-perEntry)-1)<<perEntry + min(i, 15)<<perEvent
}

// numbers gives numbers to events, each higher than the one before.
type numbers struct {
	accepted time.Time
	stored   string // id of the stored event of the last number
	last     int64
}

func newNumbers(accepted time.Time) numbers { return numbers{accepted: accepted, last: queuedNumber} }

// next returns the number of the next event for a stored event.
func (n *numbers) next(stored string) int64 {
	if n.last++; stored != n.stored {
		n.stored, n.last = stored, max(n.last, numberOf(stored, n.accepted))
	}
	return n.last
}
