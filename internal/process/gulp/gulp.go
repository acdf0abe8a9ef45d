// Package gulp reads streams that come in many small pieces, such as a model's tokens,
// a few pieces at a time: each read of a pipe or socket costs a worker several system
// calls and a change of goroutines, which is more than all that it does with a token.
package gulp

import (
	"io"
	"sync/atomic"
	"time"
)

const (
	// pause is how long a busy stream is left alone between two reads: as long as a
	// worker gathers what was read before it shows it to anybody.
	pause = 75 * time.Millisecond

	// rest is how long a stream must have nothing to say to be no longer busy. Its next
	// piece is then read at once.
	rest = 20 * time.Millisecond

	// few is how many small reads in a row make a stream busy.
	few = 8

	// large is how many bytes at once are no small piece: they are wanted as fast as
	// they come, and the writer may be waiting for room.
	large = 4 << 10

	// hurried is how many reads are not paused after Hurry.
	hurried = 32
)

// Reader is a stream read in gulps. It is for one reader.
type Reader struct {
	r     io.Reader
	done  <-chan struct{}
	small atomic.Int64 // small reads in a row; below 0: that many more are in a hurry
	timer *time.Timer
}

// New reads from r. When done is closed, nothing more will come and no pause is made;
// it may be nil.
func New(r io.Reader, done <-chan struct{}) *Reader { return &Reader{r: r, done: done} }

// Read reads what there is, after a pause if the stream is busy.
func (g *Reader) Read(p []byte) (int, error) {
	if g.small.Load() >= few {
		g.wait()
	}
	began := time.Now()
	n, err := g.r.Read(p)
	switch {
	case g.small.Load() < 0:
		g.small.Add(1)
	case n >= min(large, len(p)) || time.Since(began) > rest:
		g.small.Store(0)
	default:
		g.small.Add(1)
	}
	return n, err
}

// Hurry says that what comes next is waited for: an answer to a question, say. It may
// be called from anywhere.
func (g *Reader) Hurry() { g.small.Store(-hurried) }

func (g *Reader) wait() {
	if g.timer == nil {
		g.timer = time.NewTimer(pause)
	} else {
		g.timer.Reset(pause)
	}
	select {
	case <-g.timer.C:
	case <-g.done:
		g.timer.Stop()
	}
}
