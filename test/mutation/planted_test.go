package mutation_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/mutation"
)

const root = "../.."

var planted = flag.Bool("planted", false, "TestPlanted builds and tests each defect; else it is skipped")

// plantedDefects are defects that a test of the changed package, or of one above it, must find. Head
// "test" has the package and the test.
func plantedDefects(t *testing.T) []mutation.Mutation {
	t.Helper()
	all, err := mutation.Load("testdata/planted.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The code that the defects change exists, and so do the tests that find them.
func TestPlantedFit(t *testing.T) {
	t.Parallel()
	for _, d := range plantedDefects(t) {
		text, err := os.ReadFile(filepath.Join(root, d.Head["file"]))
		if err != nil {
			t.Error(err)
		} else if _, err := d.Edit(string(text)); err != nil {
			t.Error(err)
		}
		pkg, test, _ := strings.Cut(d.Head["test"], " ")
		if d.Head["why"] == "" || !has(t, pkg, test) {
			t.Errorf("%s: its head has no why, or %q is no test", d.Name, d.Head["test"])
		}
	}
}

// So does what the mutations of explorer and reference change, which the gate does not run.
func TestScriptMutationsFit(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"explore", "reference"} {
		all, err := mutation.Load(filepath.Join("..", of, "testdata/mutations.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			file := m.Head["file"]
			if file == "" {
				file = filepath.Join("internal/protocol/lua", m.Head["lua"])
			}
			text, err := os.ReadFile(filepath.Join(root, file))
			if err == nil {
				_, err = m.Edit(string(text))
			}
			if err != nil {
				t.Errorf("%s: %v", of, err)
			}
		}
	}
}

func has(t *testing.T, pkg, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}

// Each defect fails the test that it names.
func TestPlanted(t *testing.T) {
	if !*planted {
		t.Skip("make planted-defects")
	}
	for _, d := range plantedDefects(t) {
		t.Run(d.Name, func(t *testing.T) {
			overlay := overlay(t, d.Head["sizes"] == "small", d)
			pkg, test, _ := strings.Cut(d.Head["test"], " ")
			cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-timeout=2m", "-run", "^"+test+"$", pkg)
			cmd.Dir, cmd.Env = root, append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay) // also for programs that the test builds
			out, err := cmd.CombinedOutput()
			found := strings.Contains(string(out), "--- FAIL: "+test) || strings.Contains(string(out), "running tests:\n\t\t"+test)
			if err == nil || !found {
				t.Errorf("%s\n%s did not find it: %v\n%s", d.Head["why"], test, err, out)
			}
		})
	}
}

// overlay has a defect, and small sizes if the test is one of them.
func overlay(t *testing.T, small bool, defects ...mutation.Mutation) (file string) {
	t.Helper()
	var sizes map[string]string
	if small {
		scans, err := mutation.Load("testdata/scans.txtar")
		if err != nil {
			t.Fatal(err)
		}
		defects = append(scans, defects...)
		if sizes, err = mutation.Small(root, 3, sized...); err != nil {
			t.Fatal(err)
		}
		if len(sizes) < 15 {
			t.Fatalf("only %d files have sizes", len(sizes))
		}
	}
	file, err := mutation.Overlay(t.TempDir(), map[string][]mutation.Mutation{root: defects}, sizes)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// sized are the folders with sizes.
var sized = []string{
	".", "pkg/admin", "internal/protocol/index", "internal/protocol/maintenance", "internal/protocol/recovery", "internal/protocol/deliveries",
	"internal/protocol/stream", "internal/http/store",
}

// The suites whose lists and scans have batches pass also where each batch, page and cap is 3, and each SCAN returns every
// key twice. Skipped are those that say how large a batch is.
func TestSmallSizes(t *testing.T) {
	expect.Unraced(t)
	if !expect.Proof() {
		t.Skip("make proof builds three suites anew")
	}
	cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-short", "-timeout=5m", "-overlay="+overlay(t, true), "-skip=^("+strings.Join(ofASize, "|")+")$",
		".", "./pkg/admin", "./internal/http/store")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "TURNSTILE_PROOF=") // a sample
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// ofASize are tests of how large a batch is.
var ofASize = []string{
	"TestEraseTemporaryIsShared", "TestRerunOfLargeMessages", "TestRerunBesideAnother", "TestRerunInBatches", "TestEraseOfASenderInBatches", "TestEraseOfManyTranscripts",
	"TestEraseInBatches", "TestListLooksAtFew", "TestListPages", "TestOutbox", "TestRerunInOrder", "TestSessionsOfThousands",
}
