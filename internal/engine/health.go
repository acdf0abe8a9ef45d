package engine

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

// pulse measures how long a loop has been in its present step. A loop that waits for the clock or
// for a free slot rests, for however long: it cannot get stuck there.
type pulse struct{ at atomic.Int64 } // ns since birth; 0: it rests

// birth is the zero of all pulses, on the monotonic clock.
var birth = time.Now()

func (p *pulse) step() { p.at.Store(int64(time.Since(birth))) }
func (p *pulse) rest() { p.at.Store(0) }

func (p *pulse) since() time.Duration {
	at := p.at.Load()
	if at == 0 {
		return 0
	}
	return time.Since(birth) - time.Duration(at)
}

// Healthy returns an error when the worker is stuck and its process should be restarted: the loop
// that claims sessions, or the one that renews the claims, has not moved for 5 min. A worker is
// healthy while it drains, while all its slots are taken, and while Redis is unreachable, as long
// as the Redis client's timeouts end its calls in that time. Healthy costs two atomic loads.
func (w *Worker) Healthy() error {
	limit := w.opts.stuckAfter
	for _, loop := range []struct {
		name  string
		pulse *pulse
	}{{"the claiming of sessions", &w.dispatcher.pulse}, {"the renewal of sentinels", &w.renewer.pulse}} {
		if since := loop.pulse.since(); since > limit {
			return fmt.Errorf("%s has not moved for %s", loop.name, since.Round(time.Second))
		}
	}
	return nil
}
