package worker

import (
	"fmt"
	"sync/atomic"
	"time"
)

// stuckAfter is how long one step of the dispatcher or the renewer may take. The longest one that
// ends by itself is a call to a Redis that accepts connections and never replies: with the
// client's timeouts, four times over, it took 33 s at most. A worker that only waits for Redis
// must not be restarted.
const stuckAfter = 5 * time.Minute

// loopClock measures how long a loop has been in its present step. While a loop waits for the clock
// or for a free slot, it rests: it cannot get stuck there.
type loopClock struct{ at atomic.Int64 } // ns since clockStart; 0: it rests

// clockStart is the zero of all loop clocks, on the monotonic clock.
var clockStart = time.Now()

func (p *loopClock) step() { p.at.Store(int64(time.Since(clockStart))) }
func (p *loopClock) rest() { p.at.Store(0) }

func (p *loopClock) since() time.Duration {
	at := p.at.Load()
	if at == 0 {
		return 0
	}
	return time.Since(clockStart) - time.Duration(at)
}

// Health returns an error when the worker is stuck and its process should be restarted: the loop
// that claims sessions, or the one that renews the claims, has not moved for 5 min. A worker is
// healthy while it drains, while all its slots are taken, and while Redis is unreachable, as long
// as the Redis client's timeouts end its calls in that time. It makes no call to Redis.
func (w *Worker) Health() error {
	limit := w.opts.stuckAfter
	for _, loop := range []struct {
		name  string
		clock *loopClock
	}{{"the claiming of sessions", &w.dispatcher.clock}, {"the renewal of leases", &w.renewer.clock}} {
		if since := loop.clock.since(); since > limit {
			return fmt.Errorf("%s has not moved for %s", loop.name, since.Round(time.Second))
		}
	}
	return nil
}
