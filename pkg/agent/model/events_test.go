package model

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// read collects the events of a stream, and its error.
func read(r io.Reader, limit int) (all []string, err error) {
	for data, broken := range events(r, limit) {
		if broken != nil {
			return all, broken
		}
		all = append(all, string(data))
	}
	return all, nil
}

// No server can fill the memory.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 1000
	long := strings.Repeat("x", limit)
	for name, stream := range map[string]string{
		"one line":          "data: " + long,
		"lines of an event": strings.Repeat("data: 0123456789\n", limit/10),
		"empty lines of it": strings.Repeat("data\n", limit+1),
		"a comment":         ": " + long,
		"another field":     "event: " + long,
	} {
		if got, err := read(strings.NewReader("data: a\n\n"+stream), limit); !errors.Is(err, bufio.ErrTooLong) || !slices.Equal(got, []string{"a\n"}) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	whole := strings.Repeat("data: "+long[:limit-10]+"\n\n: "+long[:limit-10]+"\n\n", 3)
	if got, err := read(strings.NewReader(whole), limit); err != nil || len(got) != 3 {
		t.Errorf("%d events, %v", len(got), err)
	}
}

// An event that a broken connection interrupts is dropped, and the error is kept.
func TestEventsOfABrokenStream(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, rest := range []string{"", "data: b", "data: b\n"} {
		got, err := read(io.MultiReader(strings.NewReader("data: a\n\n"+rest), iotest.ErrReader(broken)), maxEvent)
		if !errors.Is(err, broken) || !slices.Equal(got, []string{"a\n"}) {
			t.Errorf("%q: %q, %v", rest, got, err)
		}
	}
}
