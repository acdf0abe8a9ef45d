package reference_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// FuzzLife runs lives that the fuzzer makes. A life that fails is shrunk and printed; its input is
// stored in testdata/fuzz, and is a test from then on.
func FuzzLife(f *testing.F) {
	expect.Unraced(f)
	for seed := range uint64(20) {
		f.Add(randomLife(seed, 40))
	}
	r := newRedis(f, nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		r.TB = t
		if r.live(data) != nil {
			report(t, r, data, "this life")
		}
	})
}

// FuzzCrash is FuzzLife with workers that mostly die, and turns that are interrupted: an
// interrupted turn's remains are the hardest to handle.
func FuzzCrash(f *testing.F) {
	expect.Unraced(f)
	for seed := range uint64(20) {
		f.Add(randomLife(1000+seed, 40))
	}
	r := newRedis(f, nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		data = deadly(data)
		r.TB = t
		if r.live(data) != nil {
			report(t, r, data, "this life")
		}
	})
}

// deadly makes every third operation the end of an interrupted turn.
func deadly(data []byte) []byte {
	head, ops := decode(data)
	ends := []kind{die, die, requeue, mark, rotate, promote, checkpoint, steer}
	for i := 2; i < len(ops); i += 3 {
		ops[i][0] = codeOf(ends[int(ops[i][0])%len(ends)])
	}
	return encode(head, ops)
}

// corpus is the folder of FuzzLife's lives.
const corpus = "testdata/fuzz/FuzzLife"

// readCorpus reads a life of that folder.
func readCorpus(name string) (data []byte, ok bool) {
	text, err := os.ReadFile(filepath.Join(corpus, name))
	if err != nil {
		return nil, false
	}
	_, value, _ := strings.Cut(string(text), "[]byte(")
	value, _, _ = strings.Cut(value, ")\n")
	life, err := strconv.Unquote(value)
	return []byte(life), err == nil
}

func writeCorpus(t *testing.T, name string, data []byte) {
	t.Helper()
	text := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", data)
	err := os.MkdirAll(corpus, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(corpus, name), []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
