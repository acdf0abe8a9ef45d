package simulate_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"turnstile/test/mutation"
)

var defects = flag.Bool("defects", false, "TestDefects builds each defect; else it is skipped")

func loadDefects(t *testing.T) []mutation.Mutation {
	t.Helper()
	all, err := mutation.Load("testdata/defects.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The text that a defect changes exists.
func TestDefectsFit(t *testing.T) {
	t.Parallel()
	for _, d := range loadDefects(t) {
		if d.Head["why"] == "" || d.Head["rule"] == "" {
			t.Errorf("%s: its head lacks why or rule", d.Name)
		}
		text, err := os.ReadFile(filepath.Join(root, d.Head["file"]))
		if err != nil {
			t.Error(err)
		} else if _, err := d.Edit(string(text)); err != nil {
			t.Error(err)
		}
	}
}

// Each defect is found by the rule that it names, in no more lives than .ci/run has.
func TestDefects(t *testing.T) {
	if !*defects {
		t.Skip("make simulate-defects")
	}
	const most, some = 300, 4
	for _, d := range loadDefects(t) {
		t.Run(d.Name, func(t *testing.T) {
			binary := build(t, d)
			for at := *first; at < *first+most; at += some {
				var list []uint64
				for i := range uint64(some) {
					list = append(list, at+i)
				}
				all, _ := spread(t, binary, list)
				for _, s := range all {
					for _, f := range s.Report.Findings {
						if f.Rule == d.Head["rule"] {
							t.Logf("found by seed %d, life %d: %s", s.Seed, s.Seed-*first+1, f)
							return
						}
						t.Logf("seed %d: found by another rule: %s", s.Seed, f)
					}
				}
			}
			t.Errorf("%d lives did not find it: %s", most, d.Head["why"])
		})
	}
}
