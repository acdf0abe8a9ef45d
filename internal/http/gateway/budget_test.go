package gateway

import (
	"context"
	"testing"

	"turnstile/test/expect"
)

// Whoever waits for room gets it when some is given back, within the token's share.
func TestBudgetIsAwaited(t *testing.T) {
	t.Parallel()
	b := newBudget(4)
	for range 3 {
		expect.Equal(t, "room", b.await(t.Context(), "a", 1), true)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	expect.Equal(t, "more than a token's share", b.await(ended, "a", 1), false)
	expect.Equal(t, "another's", b.await(t.Context(), "b", 1), true)
	got := make(chan bool, 2)
	for _, token := range []string{"a", "c"} {
		go func() { got <- b.await(t.Context(), token, 1) }()
	}
	b.free("a", 1)
	b.free("b", 1)
	for range 2 {
		expect.Equal(t, "afterwards", expect.Received(t, "room", got), true)
	}
	b.free("a", 3)
	b.free("c", 1)
	expect.Equal(t, "taken", b.taken, 0)
}
