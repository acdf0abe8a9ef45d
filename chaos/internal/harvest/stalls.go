package harvest

import (
	"context"
	"time"

	"turnstile/chaos/internal/history"
)

// Workers renew their leases each third of a lease. A machine that keeps a process waiting for so long
// can end them.
const stall = 400 * time.Millisecond

// Stalls records when the machine had no time for this process, until ctx ends.
func Stalls(ctx context.Context, log *history.Log) {
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		if now.Sub(last) > every+stall {
			log.Add(history.Record{Kind: history.Stall, Since: last.UnixNano(), At: now.UnixNano()})
		}
		last = now
	}
}
