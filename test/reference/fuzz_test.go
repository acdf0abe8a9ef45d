package reference_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"

	"turnstile/test/expect"
)

// FuzzLife runs lives that the fuzzer makes. A life that fails is shrunk and printed; its input is
// stored in testdata/fuzz, and is a test from then on.
func FuzzLife(f *testing.F) {
	expect.Unraced(f)
	for seed := range uint64(20) {
		f.Add(randomLife(seed, 40))
	}
	lives := readCorpus(f)
	for _, name := range slices.Sorted(maps.Keys(lives)) {
		f.Add(lives[name])
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

// corpus has lives by the name of the mutation that each shows.
const corpus = "testdata/lives.txtar"

func readCorpus(t testing.TB) map[string][]byte {
	t.Helper()
	archive, err := txtar.ParseFile(corpus)
	if err != nil {
		t.Fatal(err)
	}
	lives := map[string][]byte{}
	for _, file := range archive.Files {
		life, err := strconv.Unquote(strings.TrimSpace(string(file.Data)))
		if err != nil {
			t.Fatal(file.Name, err)
		}
		lives[file.Name] = []byte(life)
	}
	return lives
}

var writing sync.Mutex

func writeCorpus(t *testing.T, name string, data []byte) {
	t.Helper()
	writing.Lock()
	defer writing.Unlock()
	lives := readCorpus(t)
	lives[name] = data
	var archive txtar.Archive
	for _, name := range slices.Sorted(maps.Keys(lives)) {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: fmt.Appendf(nil, "%q\n", lives[name])})
	}
	if err := os.WriteFile(corpus, txtar.Format(&archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
