package simulate_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"turnstile/test/checker"
	"turnstile/test/simulate"
)

var report = flag.String("report", "", "of a child: the file for the summary")

// TestChild is a process of TestSeeds: one life.
func TestChild(t *testing.T) {
	if *report == "" {
		t.Skip("TestSeeds starts it")
	}
	text, err := json.Marshal(live(t, *first))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*report, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// runLife lives a life in a new process, so that no earlier life affects it. It is a finding if the process
// fails. used is the processor's time.
func runLife(t *testing.T, binary string, seed uint64) (s simulate.Summary, used time.Duration) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report")
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestChild$", "-test.timeout=5m", fmt.Sprint("-seed=", seed), "-report="+file)
	// With more Ps, or a concurrent collector, the machine's speed decides who runs.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=1GiB")
	out, failure := cmd.CombinedOutput()
	used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if failure == nil {
		var text []byte
		if text, failure = os.ReadFile(file); failure == nil {
			failure = json.Unmarshal(text, &s)
		}
	}
	if failure != nil {
		found := checker.Finding{Rule: checker.Leftover, Text: "a goroutine, or a panic: " + failure.Error()}
		return simulate.Summary{Seed: seed, Report: checker.Report{Findings: []checker.Finding{found}}, History: string(out)}, used
	}
	return s, used
}
