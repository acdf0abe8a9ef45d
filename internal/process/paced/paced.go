// Package paced reads streams of many small pieces, such as a model's tokens, a few pieces at a
// time. Each read of a pipe or socket costs a worker several system calls and a switch of
// goroutines: more than all other work on a token.
package paced

import (
	"io"
	"sync/atomic"
	"time"
)

const (
	// pause is how long a busy stream is not read: as long as a worker collects events before it
	// publishes them.
	pause = 75 * time.Millisecond

	// rest is the silence after which a stream is no longer busy. Its next piece is then read at
	// once.
	rest = 20 * time.Millisecond

	// few is how many small reads in a row make a stream busy.
	few = 8

	// large is the size from which a piece is not small. Such pieces are read without pauses,
	// because the writer may be waiting for room.
	large = 4 << 10

	// hurried is how many reads after Hurry are not paused.
	hurried = 32
)

// Reader reads a busy stream with pauses. It is for one goroutine.
type Reader struct {
	r     io.Reader
	done  <-chan struct{}
	small atomic.Int64 // small reads in a row; below 0: so many more reads are not paused
	timer *time.Timer
}

// New returns a Reader of r. Closing done means that nothing more will come: the Reader then makes
// no pause. done may be nil.
func New(r io.Reader, done <-chan struct{}) *Reader { return &Reader{r: r, done: done} }

// Read reads the available bytes, after a pause if the stream is busy.
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

// Hurry makes the next reads immediate: the caller waits for a response. It may be called from
// any goroutine.
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
