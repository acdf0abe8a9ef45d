package main

import (
	"encoding/json"
	"runtime"
	"sync"
	"sync/atomic"

	"turnstile/bench/internal/lab"
	"turnstile/bench/peers/internal/history"
)

// recorder is the handler of every peer in Go: it records that it began and ended with a message.
type recorder struct {
	sent  atomic.Int64 // accepted, which the senders count
	mu    sync.Mutex
	steps []history.Step
	ended map[message]bool // without the text
	left  *lab.Countdown
}

func newRecorder(shape lab.Load) *recorder {
	n := shape.Messages()
	return &recorder{steps: make([]history.Step, 0, 2*n), ended: make(map[message]bool, n), left: lab.NewCountdown(n)}
}

// handle handles a message. Between its two steps others may run, so that an overlap can be seen.
func (r *recorder) handle(text []byte) error {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	r.record(m, false)
	runtime.Gosched()
	r.record(m, true)
	return nil
}

func (r *recorder) record(m message, end bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, history.Step{Session: m.Session, Sequence: m.Sequence, End: end})
	if key := (message{Session: m.Session, Sequence: m.Sequence}); end && !r.ended[key] {
		r.ended[key] = true
		r.left.One()
	}
}

// history is the records so far.
func (r *recorder) history() []history.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps
}

// handled is how many messages it has finished.
func (r *recorder) handled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ended)
}
