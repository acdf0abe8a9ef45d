package paced

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// said is a stream to which a test writes without waiting for its reader.
type said struct {
	pieces chan string
	rest   string
}

func (s *said) Read(p []byte) (int, error) {
	if s.rest == "" {
		piece, ok := <-s.pieces
		if !ok {
			return 0, io.EOF
		}
		s.rest = piece
	}
	for len(s.rest) < len(p) { // a pipe returns everything that is in it
		select {
		case more, ok := <-s.pieces:
			if ok {
				s.rest += more
				continue
			}
		default:
		}
		break
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// script writes piece n times, at an interval, and returns how many reads there were, and the
// text.
func script(t *testing.T, n int, every time.Duration, piece string, done <-chan struct{}) (reads int, all string, longest time.Duration) {
	t.Helper()
	s := &said{pieces: make(chan string, 10_000)}
	g := New(s, done)
	begun := time.Now()
	go func() {
		for range n {
			time.Sleep(every)
			s.pieces <- piece
		}
		close(s.pieces)
	}()
	buffer := make([]byte, 64<<10)
	var read int
	for {
		k, err := g.Read(buffer)
		all += string(buffer[:k])
		if k > 0 {
			reads++
			first := time.Duration(read/len(piece)+1) * every // when the oldest of these pieces was written
			longest = max(longest, time.Since(begun)-first)
			read += k
		}
		if err != nil {
			return reads, all, longest
		}
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every       time.Duration
		piece       string
		least, most int // reads for 1000 pieces
	}{
		"busy":      {5 * time.Millisecond, "token ", 60, 100},
		"very busy": {time.Millisecond, "token ", 14, 36},
		"calm":      {50 * time.Millisecond, "token ", 1000, 1000},
		"large":     {time.Millisecond, strings.Repeat("x", large), 1000, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				reads, all, longest := script(t, 1000, c.every, c.piece, nil)
				if reads < c.least || reads > c.most || all != strings.Repeat(c.piece, 1000) {
					t.Errorf("%d reads, %d bytes", reads, len(all))
				}
				if longest > pause {
					t.Errorf("a piece waited for %v", longest)
				}
			})
		})
	}
}

// There is no pause after the writer's end.
func TestNoPauseAfterTheWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		close(done)
		if reads, _, longest := script(t, 1000, 5*time.Millisecond, "token ", done); reads != 1000 || longest != 0 {
			t.Errorf("%d reads, %v", reads, longest)
		}
	})
}

// Reads after Hurry are not paused for a while.
func TestHurryIsNotPaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &said{pieces: make(chan string, 1)}
		g := New(s, nil)
		say := func() time.Duration {
			s.pieces <- "x"
			began := time.Now()
			_, _ = g.Read(make([]byte, 100))
			return time.Since(began)
		}
		for range few {
			if d := say(); d != 0 {
				t.Errorf("paused for %v before the stream is busy", d)
			}
		}
		if d := say(); d != pause {
			t.Errorf("a busy stream is paused for %v", d)
		}
		g.Hurry()
		for range hurried + few {
			if d := say(); d != 0 {
				t.Errorf("paused for %v in a hurry", d)
			}
		}
		if d := say(); d != pause {
			t.Errorf("a busy stream is paused for %v", d)
		}
	})
}
