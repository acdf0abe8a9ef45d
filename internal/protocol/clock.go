package protocol

import "time"

// clock is Redis' clock as an answer has told it: ms, and when that came.
type clock struct {
	ms int64
	at time.Time
}

// now may be late by the time that the answer took, and by what the clocks' rates
// differ.
func (c clock) now() int64 { return c.ms + time.Since(c.at).Milliseconds() }
