package devredis

import (
	"context"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// tick is how often the embedded server expires keys.
const tick = 10 * time.Millisecond

// embedded is a miniredis. Its TIME is the machine's clock. A ticker expires its keys, because
// miniredis' own ClockTTL would walk through all keys at every command.
type embedded struct {
	server  *miniredis.Miniredis
	once    sync.Once
	quit    chan struct{} // closed by stop
	stopped chan struct{} // closed when it ends
}

func startEmbedded(_ context.Context, port int) (backend, error) {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(address(port)); err != nil {
		return nil, ErrPortTaken
	}
	e := &embedded{server: server, quit: make(chan struct{}), stopped: make(chan struct{})}
	go e.age()
	return e, nil
}

// age expires keys by the machine's clock, like TIME and like a real server: the machine's sleep
// counts.
func (e *embedded) age() {
	defer close(e.stopped)
	defer e.server.Close()
	timer := time.NewTimer(tick)
	defer timer.Stop()
	last := wallClock()
	for {
		select {
		case <-e.quit:
			return
		case <-timer.C:
		}
		now := wallClock()
		if now.After(last) {
			e.server.FastForward(now.Sub(last))
		}
		last = now
		// With very many keys the walk takes long, so it gets at most a tenth of the time.
		timer.Reset(max(tick, 10*time.Since(now)))
	}
}

// wallClock returns the time without Go's monotonic reading, which stands still while the machine
// sleeps.
func wallClock() time.Time { return time.Now().Round(0) }

// Done implements backend.
func (e *embedded) Done() <-chan struct{} { return e.stopped }

func (e *embedded) stop() {
	e.once.Do(func() { close(e.quit) })
	<-e.stopped
}
