package actors

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"turnstile/internal/redisconn"
	"turnstile/test/redistest"
)

// atOnce is how many tests run in parallel, unless -parallel says otherwise: they wait
// more than they compute.
const atOnce = "4"

// Main runs a package's tests without go-redis' log, and fails if they leave goroutines.
func Main(m *testing.M) {
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	runMore()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(redistest.Dialing()); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// runMore lets more tests run in parallel than there are cores.
func runMore() {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
}
