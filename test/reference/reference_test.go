package reference_test

import (
	"fmt"
	"testing"

	"turnstile/test/reference"
)

// TestLives lives random lives on the model and on the real thing.
func TestLives(t *testing.T) {
	r := newRedis(t, nil)
	for seed := range uint64(400) {
		data := randomLife(seed, 60)
		if r.live(data, reference.AsLanded) != nil {
			report(t, r, data, fmt.Sprint("seed ", seed))
		}
	}
}

// report shrinks a life that fails and prints what is left of it.
func report(t *testing.T, r *redisOf, data []byte, name string) {
	t.Helper()
	small, d := r.shrink(data, reference.AsLanded)
	if d == nil {
		t.Errorf("%s: fails, but not when it is repeated: %x", name, data)
		return
	}
	t.Fatalf("%s, shrunk to %x:\n%s", name, small, d)
}
