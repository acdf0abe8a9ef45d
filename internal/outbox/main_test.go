package outbox_test

import (
	"os"
	"testing"

	"turnstile/test/actors"
	"turnstile/test/program"
)

// The test binary is also the deliverer that is killed.
func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		program.RunJob(text, job.run)
	}
	actors.Main(m)
}
