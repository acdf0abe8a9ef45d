package worker

import (
	"log/slog"
	"sync"
)

// openQuestions counts the questions of all turns that wait for a decision in
// their slots. When they occupy all slots, no other session runs: the log says when that begins
// and ends.
type openQuestions struct {
	slots int
	log   *slog.Logger

	mu   sync.Mutex
	open int // at most one of each turn
}

func (o *openQuestions) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open++; o.open == o.slots {
		o.log.Warn("every slot waits for a user's decision or a program's value, no other session runs: decide with /approve or /deny, or raise the concurrency or the number of waiting agents", "slots", o.slots)
	}
}

func (o *openQuestions) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == o.slots {
		o.log.Info("no longer every slot waits for a decision or a value", "slots", o.slots)
	}
	o.open--
}
