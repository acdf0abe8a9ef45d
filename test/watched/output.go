// Package watched lets a test wait for a program's output, in an Output or on a Terminal.
package watched

import (
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile/test/expect"
)

// Output takes a program's output while it runs.
type Output struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

// NewOutput returns an empty Output.
func NewOutput() *Output { return &Output{changed: make(chan struct{})} }

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(p)
}

// String is the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Await waits until part was written, and returns the output after it so far.
func (o *Output) Await(t testing.TB, part string) (behind string) {
	t.Helper()
	o.Until(t, "text with "+part, func(text string) (ok bool) {
		_, behind, ok = strings.Cut(text, part)
		return ok
	})
	return behind
}

// Until waits until is returns true for the output so far.
func (o *Output) Until(t testing.TB, want string, is func(text string) bool) {
	t.Helper()
	deadline := time.After(expect.Patience)
	for {
		o.mu.Lock()
		text, changed := o.text.String(), o.changed
		o.mu.Unlock()
		if is(text) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("got  %q\nwant %q", text, want)
		}
	}
}
