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

// A body reserves room as it arrives, and no more than its length.
func TestBodiesHaveRoom(t *testing.T) {
	t.Parallel()
	b := newBodies(1)
	read := func(length int64, body io.Reader) int64 {
		t.Helper()
		data, taken, err := b.read("a", body, length)
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

	// Announced bytes that do not arrive reserve little.
	_, taken, err := b.read("a", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("ab"))), 1<<30)
	expect.Equal(t, "announced", taken, 0)
	expect.Equal(t, "its error", errors.Is(err, iotest.ErrTimeout), true)

	_, taken, err = b.read("a", bytes.NewReader(make([]byte, bodiesMost)), bodiesMost)
	var p *Problem
	if !errors.As(err, &p) || p.Code != Overloaded {
		t.Errorf("too many: %v", err)
	}
	b.free("a", held+taken)
	expect.Equal(t, "room that was not given back", b.taken, 0)
	expect.Equal(t, "and its tokens", len(b.by), 0)
}

// One token's bodies leave room for the others'.
func TestBodiesOfOneToken(t *testing.T) {
	t.Parallel()
	b := newBodies(1)
	const share = bodiesMost / 4 * 3
	expect.Equal(t, "more than its share", b.take("a", share+1), false)
	expect.Equal(t, "its share", b.take("a", share), true)
	expect.Equal(t, "one more", b.take("a", 1), false)
	expect.Equal(t, "another's", b.take("b", bodiesMost-share), true)
	expect.Equal(t, "when all is taken", b.take("c", 1), false)
	b.free("a", share)
	expect.Equal(t, "afterwards", b.take("b", share/2), true)
}
