package engine

import (
	"log/slog"
	"sync"
)

// openQuestions counts the questions of all turns that wait for an answer. Each keeps
// its turn's slot: once they have all of them nobody else is served, which the log
// tells, and when that is over.
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
		o.log.Warn("every slot waits for a user's answer, nobody else is served: answer with /approve or /deny, or raise the concurrency", "slots", o.slots)
	}
}

func (o *openQuestions) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == o.slots {
		o.log.Info("no longer does every slot wait for a user's answer", "slots", o.slots)
	}
	o.open--
}
