package simulate_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"turnstile/test/expect"
	"turnstile/test/simulate"
)

// The flags of `make simulate`.
var (
	first = flag.Uint64("seed", 1, "the first seed")
	seeds = flag.Int("seeds", 0, "how many lives TestSeeds lives; 0: it is skipped")
	keep  = flag.String("keep", os.TempDir(), "where the histories of findings are kept")
)

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	flag.Parse()
	redis.SetLogger(silent{}) // its lines go to standard error, and each write may change the order of goroutines
	os.Exit(m.Run())
}

func live(t *testing.T, seed uint64) simulate.Summary { return in(t, seed, simulate.Run) }

func in(t *testing.T, seed uint64, run func(uint64) simulate.Summary) (s simulate.Summary) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(*testing.T) { s = run(seed) })
	return s
}

// some is how many lives a test with the race detector lives: all of them for the proof.
func some(all uint64) uint64 {
	if expect.Proof() {
		return all
	}
	return 1
}

// An unsteady Redis gives up no message: no worker has died.
func TestUnsteadyRedis(t *testing.T) {
	for seed := *first; seed < *first+some(3); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := in(t, seed, simulate.RunUnsteady)
			t.Log("\n" + s.History)
			for _, f := range s.Report.Findings {
				t.Error(f)
			}
			expect.Equal(t, "pauses", s.Report.Totals.Faults["Redis paused"], 4)
			if s.Report.Totals.Reruns == 0 {
				t.Error("no message ran again: no lease was lost")
			}
		})
	}
}

// A few lives, with the race detector in `make test`. With -v it prints their histories.
func TestLives(t *testing.T) {
	for seed := *first; seed < *first+some(2); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := live(t, seed)
			t.Log("\n" + s.History)
			for _, f := range s.Report.Findings {
				t.Error(f)
			}
			if total := s.Report.Totals; len(total.Messages) == 0 || len(total.Turns) == 0 {
				t.Error("nothing has happened")
			}
		})
	}
}
