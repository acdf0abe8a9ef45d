package worker_test

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent/exec"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// atOnce is how many tests run in parallel: they mostly wait.
const atOnce = 12

// The test binary is also the agents' guardian, and the worker processes that are killed.
func TestMain(m *testing.M) {
	exec.Init()
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	if job := os.Getenv(childVariable); job != "" {
		runChild(job)
	}
	expect.AtOnce(atOnce)
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(redistest.Dialing()); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}
