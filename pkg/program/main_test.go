package program_test

import (
	"os"
	"testing"

	"turnstile/test/actors"
)

// Run refuses settings that it does not know, and no test here has more cases with this one.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		runChild()
	}
	_ = os.Unsetenv("TURNSTILE_PROOF")
	actors.Main(m)
}
