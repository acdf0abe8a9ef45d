package acp

import (
	"os"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"turnstile/internal/guardian"
)

// The test binary is also the guardian and the agents of the tests.
func TestMain(m *testing.M) {
	guardian.Init()
	if len(os.Args) > 1 && os.Args[1] == "test-agent" {
		syscall.Exit(scripted(os.Args[2:])) // os.Exit takes a second in a race build
	}
	for name, value := range map[string]string{"REDIS_URL": "redis://:secret@localhost", "ACP_TEST_ONE": "1"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
