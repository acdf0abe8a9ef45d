package protocol

import "time"

// clock is Redis' clock in ms in a result, and when the result arrived.
type clock struct {
	ms int64
	at time.Time
}

// now may lag by the time that the result took to arrive, and by the drift of the two clocks.
func (c clock) now() int64 { return c.ms + time.Since(c.at).Milliseconds() }
