package reference_test

import (
	"testing"

	"turnstile/test/reference"
)

// FuzzLife lives what the fuzzer makes up. What fails is shrunk and printed; the input
// itself is kept in testdata/fuzz, and is a test from then on.
func FuzzLife(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(randomLife(seed, 40))
	}
	r := newRedis(f, nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		r.TB = t
		if r.live(data, reference.AsLanded) != nil {
			report(t, r, data, "this life")
		}
	})
}

// FuzzCrash is FuzzLife where workers die more often than they do anything else, and
// turns are cut off: what is left of a turn is the hardest to get right.
func FuzzCrash(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(randomLife(1000+seed, 40))
	}
	r := newRedis(f, nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		data = deadly(data)
		r.TB = t
		if r.live(data, reference.AsLanded) != nil {
			report(t, r, data, "this life")
		}
	})
}

// deadly makes every third operation the end of a turn that is cut off.
func deadly(data []byte) []byte {
	head, ops := decode(data)
	ends := []kind{die, die, requeue, mark, rotate, promote, checkpoint, steer}
	for i := 2; i < len(ops); i += 3 {
		ops[i][0] = codeOf(ends[int(ops[i][0])%len(ends)])
	}
	return encode(head, ops)
}
