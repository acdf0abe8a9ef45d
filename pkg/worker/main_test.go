package worker_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"turnstile/pkg/agent/exec"
)

// The test binary is also the guardian of agents, and the workers that are killed.
func TestMain(m *testing.M) {
	exec.Init()
	if job := os.Getenv(childVariable); job != "" {
		runChild(job)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}
