package openai

import "time"

// EraseAfter changes for how long the session of a chat without one is kept. Call it before Mount.
func (a *API) EraseAfter(life, pause time.Duration) { a.oneShots = oneShots{life, pause} }

// Numbers are those of stored events of which each becomes n.
func Numbers(accepted time.Time, ids []string, n int) (all []int64) {
	given := newNumbers(accepted)
	for _, id := range ids {
		for range n {
			all = append(all, given.next(id))
		}
	}
	return all
}
