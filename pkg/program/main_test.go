package program_test

import (
	"flag"
	"os"
	"testing"

	"turnstile/test/actors"
)

// Run refuses settings that it does not know, and no test here has more cases with this one.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		runChild()
	}
	flag.Parse()
	os.Args = os.Args[:1] // the rest are the test's, and Run would read them
	_ = os.Unsetenv("TURNSTILE_PROOF")
	actors.Main(m)
}
