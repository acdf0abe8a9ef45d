package gateway

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"turnstile/test/expect"
)

// A body takes room as it comes, and no more than it is long.
func TestBodiesHaveRoom(t *testing.T) {
	t.Parallel()
	b := newBodies(1)
	read := func(length int64, body io.Reader) int64 {
		t.Helper()
		data, taken, err := b.read(body, length)
		expect.OK(t, err)
		if len(data) > smallBody && taken+smallBody < int64(len(data)) || taken > max(2*int64(len(data)), smallBody) {
			t.Errorf("%d bytes take %d", len(data), taken)
		}
		return taken
	}
	expect.Equal(t, "a small one", read(10, strings.NewReader(strings.Repeat("a", 10))), 0)
	var held int64
	for _, n := range []int{smallBody, smallBody + 1, 100_000, 1 << 20} {
		held += read(int64(n), strings.NewReader(strings.Repeat("a", n)))
		held += read(-1, iotest.HalfReader(strings.NewReader(strings.Repeat("a", n))))
	}
	expect.Equal(t, "an exact one", read(1<<20, bytes.NewReader(make([]byte, 1<<20))), 1<<20+1-smallBody)
	held += 1<<20 + 1 - smallBody

	// What is announced and does not come takes little.
	_, taken, err := b.read(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("ab"))), 1<<30)
	expect.Equal(t, "announced", taken, 0)
	expect.Equal(t, "its error", errors.Is(err, iotest.ErrTimeout), true)

	_, taken, err = b.read(bytes.NewReader(make([]byte, bodiesMost)), bodiesMost)
	var p *Problem
	if !errors.As(err, &p) || p.Code != Overloaded {
		t.Errorf("too many: %v", err)
	}
	b.room.Release(held + taken)
	if !b.room.TryAcquire(bodiesMost) {
		t.Error("not all room was given back")
	}
}
