package reference_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"turnstile/test/expect"
)

// mostLives is how many random lives are tried. lifeOps is how many operations each has, before all
// waiting messages run.
const (
	mostLives = 400
	lifeOps   = 60
)

// TestLives runs random lives on the model and on the real thing: some hundreds, or as many as
// REFERENCE_LIVES says.
func TestLives(t *testing.T) {
	expect.Unraced(t)
	most, err := strconv.ParseUint(os.Getenv("REFERENCE_LIVES"), 10, 32)
	if err != nil {
		most = 240
	}
	const parts = 4
	for part := range uint64(parts) {
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			r := newRedis(t, nil)
			for seed := part; seed < most; seed += parts {
				if data := randomLife(seed, lifeOps); r.live(data) != nil {
					report(t, r, data, fmt.Sprint("life ", seed))
				}
			}
		})
	}
}

// first returns the first of up to most random lives in which the two sides differ. Nil: there is
// none.
func (r *redisOf) first(most uint64) []byte {
	for seed := range most {
		if data := randomLife(seed, lifeOps); r.live(data) != nil {
			return data
		}
	}
	return nil
}

// report shrinks a life that fails and prints the rest of it.
func report(t *testing.T, r *redisOf, data []byte, name string) {
	t.Helper()
	small, d := r.shrink(data)
	if d == nil {
		t.Errorf("%s: fails, but not when it is repeated: %x", name, data)
		return
	}
	t.Fatalf("%s, shrunk to %x:\n%s", name, small, d)
}
