package devredis

import (
	"context"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"turnstile/internal/redisserver"
)

// tick is how often keys age in the embedded server.
const tick = 10 * time.Millisecond

// embedded is a miniredis. Its TIME is the machine's clock. Its keys do not age
// by themselves: its ClockTTL would walk through all keys at every command, so a
// ticker does it.
type embedded struct {
	server  *miniredis.Miniredis
	once    sync.Once
	quit    chan struct{} // closed by stop
	stopped chan struct{} // closed when it has ended
}

func startEmbedded(_ context.Context, port int) (backend, error) {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(address(port)); err != nil {
		return nil, redisserver.ErrPortTaken
	}
	e := &embedded{server: server, quit: make(chan struct{}), stopped: make(chan struct{})}
	go e.age()
	return e, nil
}

// age lets keys expire by the machine's clock, like TIME and like a real server:
// after the machine has slept, they are older by that time.
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
		// With very many keys the walk takes long; it gets a tenth of the time.
		timer.Reset(max(tick, 10*time.Since(now)))
	}
}

// wallClock is the time without Go's monotonic reading, which stands still
// while the machine sleeps.
func wallClock() time.Time { return time.Now().Round(0) }

// Done implements backend.
func (e *embedded) Done() <-chan struct{} { return e.stopped }

func (e *embedded) stop() {
	e.once.Do(func() { close(e.quit) })
	<-e.stopped
}
