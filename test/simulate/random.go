package simulate

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// random is one actor's source of numbers. Other actors' draws do not change it.
type random struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newRandom(seed uint64, actor string) *random {
	h := fnv.New64a()
	_, _ = h.Write([]byte(actor))
	return &random{rng: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// below returns a number from 0 to n-1.
func (r *random) below(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.IntN(n)
}

// chance is true in one of n cases.
func (r *random) chance(n int) bool { return r.below(n) == 0 }

// upTo returns a time below d.
func (r *random) upTo(d time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.rng.Int64N(int64(d)))
}

// about returns a random time: d on average, and 8*d at most.
func (r *random) about(d time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(time.Duration(r.rng.ExpFloat64()*float64(d)), 8*d)
}

// pick returns one of the values.
func pick[T any](r *random, values ...T) T { return values[r.below(len(values))] }
