package command

import (
	"fmt"
	"io"
	"sync"
)

// MaxResting is how many bytes a program may write between two turns, to stdout and stderr
// together. Nothing was requested of it then, and reading its output costs processor time.
const MaxResting = 4 << 20

// ErrTalked reports that a program wrote more than MaxResting between two turns.
var ErrTalked = fmt.Errorf("it wrote more than %d MiB between two turns", MaxResting>>20)

// Rest begins a pause between two turns. When the program has written more than MaxResting in it,
// talked is called and nothing more is read: the program blocks in its next write until it is
// ended.
func (c *Command) Rest(talked func()) { c.resting.begin(talked) }

// EndRest ends the pause. It returns false if the program wrote too much in it.
func (c *Command) EndRest() bool { return c.resting.end() }

// resting counts a program's output between turns.
type resting struct {
	mu      sync.Mutex
	on      bool
	written int64
	talked  func()
	over    bool // set for good once more than MaxResting was written
}

func (r *resting) begin(talked func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on, r.written, r.talked = true, 0, talked
}

func (r *resting) end() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = false
	return !r.over
}

// count adds n bytes, and reports whether that is too much.
func (r *resting) count(n int) bool {
	r.mu.Lock()
	first := false
	if r.on && !r.over {
		r.written += int64(n)
		r.over = r.written > MaxResting
		first = r.over
	}
	over, talked := r.over, r.talked
	r.mu.Unlock()
	if first {
		talked()
	}
	return over
}

// reader wraps a reader, which fails once the program has written too much between turns.
func (r *resting) reader(of io.Reader) io.Reader { return &restingReader{of, r} }

type restingReader struct {
	io.Reader
	resting *resting
}

func (r *restingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.resting.count(n) {
		return n, ErrTalked
	}
	return n, err
}
