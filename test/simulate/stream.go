package simulate

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// chunk is the data of one write, and when it arrives.
type chunk struct {
	data []byte
	at   time.Time
}

// stream is one direction of a connection in memory. It has no bound: a client that writes a long
// pipeline must not block a server that replies to its beginning.
type stream struct {
	link *link
	rng  *random // of this stream alone, so that others' writes do not change its delays
	born time.Time

	mu       sync.Mutex
	chunks   []chunk
	closed   bool
	lost     bool // closed, and unread data is lost
	deadline time.Time
	changed  chan struct{} // closed and replaced by each change
}

func newStream(l *link, rng *random) *stream {
	return &stream{link: l, rng: rng, born: time.Now(), changed: make(chan struct{})}
}

func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stream) write(p []byte) (n int, err error) {
	at := time.Now()
	// go-redis makes a subscription's connection while it holds a sync.Mutex. Time does not pass while
	// another goroutine waits for one, so a connection's first moment has no delays.
	if at.After(s.born) {
		at = at.Add(s.rng.upTo(s.link.longestDelay()))
	}
	s.change(func() {
		if s.closed {
			err = net.ErrClosed
			return
		}
		if last := len(s.chunks) - 1; last >= 0 && at.Before(s.chunks[last].at) {
			at = s.chunks[last].at // nothing overtakes
		}
		s.chunks = append(s.chunks, chunk{append([]byte(nil), p...), at})
		n = len(p)
	})
	return n, err
}

// close ends the stream after the data that was written.
func (s *stream) close() { s.change(func() { s.closed = true }) }

// lose ends the stream at once: unread data never arrives.
func (s *stream) lose() { s.change(func() { s.closed, s.lost, s.chunks = true, true, nil }) }

func (s *stream) setDeadline(t time.Time) { s.change(func() { s.deadline = t }) }

// read waits until a chunk has arrived. While the link is held nothing arrives.
func (s *stream) read(p []byte) (int, error) {
	for {
		released := s.link.released()
		n, wait, changed, err := s.poll(p, released != nil)
		if n > 0 || err != nil {
			return n, err
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-changed:
		case <-released:
		case <-timer:
		}
	}
}

// poll reads data that arrived. If there are none, it returns the longest wait (0: no limit), and a
// channel that the next change closes.
func (s *stream) poll(p []byte, held bool) (n int, wait time.Duration, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if len(s.chunks) > 0 && !held {
		first := &s.chunks[0]
		if wait = first.at.Sub(now); wait <= 0 {
			n = copy(p, first.data)
			if first.data = first.data[n:]; len(first.data) == 0 {
				s.chunks = s.chunks[1:]
			}
			return n, 0, nil, nil
		}
	}
	if s.closed && (s.lost || len(s.chunks) == 0 && !held) {
		return 0, 0, nil, io.EOF
	}
	if !s.deadline.IsZero() {
		left := s.deadline.Sub(now)
		if left <= 0 {
			return 0, 0, nil, os.ErrDeadlineExceeded
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return 0, wait, s.changed, nil
}
