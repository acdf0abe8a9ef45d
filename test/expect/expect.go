// Package expect compares what a test gets with what it wants, and waits for events. Its
// settings say how long a test waits and how many cases it tries.
package expect

import (
	"os"
	"slices"
	"testing"
	"time"
)

// Patience is how long an event may take before the test fails. It is long: only a test
// that fails waits for it.
const Patience = time.Minute

// tick is the pause between two checks of a condition that has no event.
const tick = 3 * time.Millisecond

// Proof reports whether tests try all of their cases, as `make proof` asks them to with
// TURNSTILE_PROOF=true. Otherwise they try some of each kind.
func Proof() bool { return os.Getenv("TURNSTILE_PROOF") == "true" }

// OK ends the test if there is an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal fails the test if the two differ.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// List fails the test if got is not want, in this order.
func List(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// Soon waits until cond holds, and ends the test if that does not happen.
func Soon(t testing.TB, what string, cond func() bool) {
	t.Helper()
	end := time.NewTimer(Patience)
	defer end.Stop()
	again := time.NewTicker(tick)
	defer again.Stop()
	for !cond() {
		select {
		case <-end.C:
			t.Fatalf("waited in vain for %s", what)
		case <-again.C:
		}
	}
}

// Received waits for the next value of a channel, and ends the test if none comes.
func Received[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	end := time.NewTimer(Patience)
	defer end.Stop()
	select {
	case v, ok := <-c:
		if !ok {
			t.Fatalf("the channel of %s was closed", what)
		}
		return v
	case <-end.C:
		t.Fatalf("waited in vain for %s", what)
	}
	return v
}
