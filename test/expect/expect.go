// Package expect compares a test's results with the wanted ones, and waits for events. Its settings
// are how long a test waits and how many cases it tries.
package expect

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile/internal/text/printable"
)

// tick is the pause between two checks of a condition that has no event.
const tick = 3 * time.Millisecond

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

// Soon waits until cond holds, and ends the test after Patience.
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

// ErrorMost is how many bytes an error about input may have, however long the input is: errors repeat
// at most 500 characters of it, or twice 100 in quotes.
const ErrorMost = 3000

// Line fails the test unless a text is one printable line of at most some bytes, as errors and log
// lines must be.
func Line(t testing.TB, what, text string, most int) {
	t.Helper()
	switch {
	case text == "":
		t.Errorf("%s is empty", what)
	case len(text) > most:
		t.Errorf("%s has %d bytes, at most %d are allowed: %.200q", what, len(text), most, text)
	case printable.Line(text) != text:
		t.Errorf("%s is no line of printable text: %q", what, text)
	}
}

// Ended returns a cancelled context. A Stop with it does not wait.
func Ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Near returns names that are almost a name, but not the same: in another case, with a blank, shorter, longer, and in
// another place of a path.
func Near(name string) []string {
	n := len(name)
	return []string{
		strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], name + " ", " " + name, name[:n-1], name[1:], name + "2", "x" + name,
		name + "/x", "x/" + name, name + "\u200b", name + "*", "*",
	}
}
