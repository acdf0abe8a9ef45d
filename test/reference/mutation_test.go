package reference_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/mutation"
)

// TestMutations shows that the model finds faults in the scripts: with each mutation, a small
// change to a script, the two differ. The corpus has a life, with the mutation's name, that shows
// the difference. If there is none, or it no longer shows it, a few hundred random lives are tried.
// REFERENCE_WRITE=1 tries a few thousand, and writes those that show it into the corpus.
func TestMutations(t *testing.T) {
	if !expect.Proof() {
		t.Skip("make proof plants defects")
	}
	mutations, err := mutation.Load("testdata/mutations.txtar")
	if err != nil {
		t.Fatal(err)
	}
	lives := readCorpus(t)
	write, most := os.Getenv("REFERENCE_WRITE") != "", uint64(mostLives)
	if write {
		most *= 10
	}
	for _, m := range mutations {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			r := newRedis(t, change(t, m))
			if data, ok := lives[m.Name]; ok && r.live(data) != nil {
				return
			}
			data := r.first(most)
			if data == nil {
				t.Fatalf("survives %d lives", most)
			}
			data, d := r.shrink(data)
			t.Run("without it", func(t *testing.T) {
				if same := newRedis(t, nil).live(data); same != nil {
					t.Fatalf("differs, too:\n%s", same)
				}
			})
			switch {
			case write:
				writeCorpus(t, m.Name, data)
			default:
				t.Logf("the corpus has no life that shows it: REFERENCE_WRITE=1 writes one. Found:\n%s", d)
			}
		})
	}
}

// A mutation that is removed takes its life along.
func TestEachLifeHasItsMutation(t *testing.T) {
	t.Parallel()
	mutations, err := mutation.Load("testdata/mutations.txtar")
	if err != nil {
		t.Fatal(err)
	}
	lives := readCorpus(t)
	for _, m := range mutations {
		delete(lives, m.Name)
	}
	for name := range lives {
		t.Errorf("%s has a life for %s, which is not in mutations.txtar", corpus, name)
	}
}

// change returns a mutation's change of a script's source. The mutation's file is one of internal/protocol/lua, or
// a script of pkg/resume.
func change(t *testing.T, m mutation.Mutation) func(source string) string {
	t.Helper()
	if file := m.Head["file"]; file != "" {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		changed, err := m.Edit(string(text))
		if err != nil {
			t.Fatal(err)
		}
		return func(source string) string { return strings.Replace(source, string(text), changed, 1) }
	}
	changed, err := m.Scripts()
	if err != nil {
		t.Fatal(err)
	}
	return func(source string) string { return cmp.Or(changed[source], source) }
}
