package reference_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(redistest.Dialing()); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}
