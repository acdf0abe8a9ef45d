package openai

import (
	"time"

	"turnstile/pkg/admin"
)

// EraseAfter changes how long a temporary session is kept. Call it before Mount.
func (a *API) EraseAfter(life, pause time.Duration) { a.oneShots = oneShots{life, pause} }

// LookAfter changes how often a request looks whether its turn is parked. Call it before Mount.
func (a *API) LookAfter(d time.Duration) { a.parkedWait = d }

// SeesWorker has the gateway remember a worker that lived before.
func (a *API) SeesWorker() { a.live.workers = []admin.Worker{{Agent: "echo"}} }

// Numbers are the numbers of stored events that become n events each.
func Numbers(accepted time.Time, ids []string, n int) (all []int64) {
	given := newNumbers(accepted)
	for _, id := range ids {
		for range n {
			all = append(all, given.next(id))
		}
	}
	return all
}
