package expect

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Each processor has three goroutines that compute, so a thread gets a part of one.
func TestLeaseGrowsOnABusyMachine(t *testing.T) { //nolint:paralleltest // it keeps all processors busy
	var stop sync.WaitGroup
	var over atomic.Bool
	defer stop.Wait()
	defer over.Store(true)
	busy := runtime.GOMAXPROCS(3 * runtime.NumCPU())
	defer runtime.GOMAXPROCS(busy)
	for range 3 * runtime.NumCPU() {
		stop.Go(func() {
			for !over.Load() {
				continue
			}
		})
	}
	got := Lease(time.Second)
	if got < 1500*time.Millisecond || got > mostSlower*time.Second {
		t.Errorf("a second became %s", got)
	}
	if again := Lease(time.Second); again < got {
		t.Errorf("a second became %s, and then %s", got, again)
	}
}
