package engine

import (
	"log/slog"
	"sync"
)

// openQuestions counts the questions that wait for a decision, of all turns. Each holds
// its turn's slot. The log tells when they hold all slots, so that no other session runs,
// and when that is over.
type openQuestions struct {
	slots int
	log   *slog.Logger

	mu   sync.Mutex
	open int // a turn asks one at a time
}

func (o *openQuestions) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open++; o.open == o.slots {
		o.log.Warn("every slot waits for a user's decision, no other session runs: decide with /approve or /deny, or raise the concurrency", "slots", o.slots)
	}
}

func (o *openQuestions) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == o.slots {
		o.log.Info("not every slot waits for a user's decision any more", "slots", o.slots)
	}
	o.open--
}
