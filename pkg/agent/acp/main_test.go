package acp

import (
	"os"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"turnstile/internal/process/confine"
	"turnstile/internal/process/guardian"
	"turnstile/test/expect"
	"turnstile/test/mcpserver"
)

// scratch is a directory for all tests, removed after them.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "acp-test-") })

// The test binary is also the guardian and the agents of the tests.
func TestMain(m *testing.M) {
	confine.Init()
	guardian.Init()
	mcpserver.Init()
	syscall.Umask(0o022) // only its owner may write to t.TempDir
	if len(os.Args) > 1 && os.Args[1] == "test-agent" {
		syscall.Exit(scripted(os.Args[2:])) // os.Exit takes a second in a race build
	}
	for name, value := range map[string]string{"TURNSTILE_TEST_SECRET": "secret", "ACP_TEST_ONE": "1"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	expect.AtOnce(4)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := scratch(); err == nil {
			_ = os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}
