package actors

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"turnstile/internal/redis/redisconn"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// atOnce is how many tests run in parallel: they wait more than they compute.
const atOnce = 4

// Main runs a package's tests without go-redis' log, and fails if they leave goroutines.
func Main(m *testing.M) {
	redisconn.LogTo(slog.New(slog.DiscardHandler))
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
