package outbox_test

import (
	"os"
	"testing"

	"turnstile/test/actors"
)

// The test binary is also the deliverer that is killed.
func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		runChild(text)
	}
	actors.Main(m)
}
