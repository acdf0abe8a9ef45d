package exec

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"turnstile/test/expect"

	"go.uber.org/goleak"
)

// The test binary is also the guardian, the agents of the tests, and workers that can be killed.
// Arguments choose, because an agent's environment is filtered.
func TestMain(m *testing.M) {
	Init()
	if len(os.Args) > 2 && os.Args[1] == "test-role" {
		role, ok := roles[os.Args[2]]
		if !ok {
			fmt.Fprintln(os.Stderr, "no such role:", os.Args[2])
			os.Exit(99)
		}
		syscall.Exit(role(os.Args[3:])) // os.Exit takes a second in a race build
	}
	// Variables that no agent may see.
	for name, value := range map[string]string{
		"REDIS_URL": "redis://:secret@localhost", "TURNSTILE_HTTP_TOKEN": "secret",
		"LC_TEST": "yes", "EXEC_TEST_ONE": "1", "EXEC_TEST_TWO": "2", "OTHER_TEST": "no",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	expect.AtOnce(4)
	goleak.VerifyTestMain(m)
}
