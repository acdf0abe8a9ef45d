package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// A guardian is the worker's program started again, once for each turn of an agent that is a
// command. It uses no script, so it must not build them: with 1.8 MB of scripts it began with a
// garbage collection.
func TestScriptsAreMadeWhenTheyAreUsed(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := regexp.MustCompile(`init turnstile/internal/protocol @.*?(\d+) bytes`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("the package's initialization is not told: %s", out)
	}
	if n, _ := strconv.Atoi(string(found[1])); n > 300_000 {
		t.Errorf("the package takes %d bytes when it is initialized", n)
	}
}
