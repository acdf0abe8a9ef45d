package simulate_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"turnstile/test/mutation"
)

const root = "../.."

// build builds this package's tests with defects and with the patches of testdata/runtime, which make the
// random choices of the Go runtime repeat inside a bubble. They fit Go 1.26; the installed Go does not change.
// With a runtime that they do not fit, lives repeat less often, and nothing else changes.
func build(t *testing.T, defects ...mutation.Mutation) (binary string) {
	t.Helper()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	std := strings.TrimSpace(string(goroot))
	patches, err := mutation.Load("testdata/runtime/patches.txtar")
	if err != nil {
		t.Fatal(err)
	}
	draws, err := os.ReadFile("testdata/runtime/draws.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changes := map[string][]mutation.Mutation{std: patches, root: defects}
	overlay, err := mutation.Overlay(dir, changes, map[string]string{filepath.Join(std, "src/runtime/draws.go"): string(draws)})
	if err != nil {
		t.Logf("seeds repeat less often: testdata/runtime does not fit %s: %v", runtime.Version(), err)
		delete(changes, std)
		if overlay, err = mutation.Overlay(dir, changes, nil); err != nil {
			t.Fatal(err)
		}
	}
	binary = filepath.Join(dir, "simulate.test")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o="+binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}
