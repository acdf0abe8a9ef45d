package outbox

import (
	"sync"
	"time"
)

// agesKept is how long a line counts after its last visit. Another deliverer may have emptied it. It is
// a little longer than the longest wait between two visits.
const agesKept = 20 * time.Minute

// maxAges bounds the lines that are remembered. If more fail, they fail together, and are about
// equally old.
const maxAges = 10_000

// ages remembers the first records of lines that this deliverer has seen and not delivered.
type ages struct {
	mu    sync.Mutex
	lines map[[2]string]seen
}

type seen struct{ stored, at time.Time }

func (a *ages) see(session, destination string, age time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lines == nil {
		a.lines = map[[2]string]seen{}
	}
	key, now := [2]string{session, destination}, time.Now()
	if _, known := a.lines[key]; known || len(a.lines) < maxAges {
		a.lines[key] = seen{now.Add(-age), now}
	}
}

func (a *ages) forget(session, destination string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.lines, [2]string{session, destination})
}

// Oldest returns the age of the oldest undelivered record of each destination that this deliverer
// has seen in the last 20 minutes. A failing record is seen at least that often.
func (d *Deliverer) Oldest() map[string]time.Duration {
	oldest := map[string]time.Duration{}
	for _, name := range d.opts.Destinations().Names() {
		oldest[name] = 0
	}
	d.ages.mu.Lock()
	defer d.ages.mu.Unlock()
	now := time.Now()
	for key, s := range d.ages.lines {
		if now.Sub(s.at) > agesKept {
			delete(d.ages.lines, key)
		} else {
			oldest[key[1]] = max(oldest[key[1]], now.Sub(s.stored))
		}
	}
	return oldest
}
