package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/maintenance"
)

// lookEvery is how often a worker looks at the others' heartbeats, if it has named agents, or sessions wait for
// an agent that it does not run or has paused.
const lookEvery = 5 * time.Second

// elsewhere says which agents this worker may run, and which the others run.
type elsewhere struct {
	name   string   // of this worker
	all    []string // its agents
	known  []string // those, and the others' that its config names
	pauses *pauses  // of its agents
	rdb    redis.UniversalClient
	life   *lifecycle
	log    *slog.Logger
	soon   chan struct{} // the first look that matters is due

	mu      sync.Mutex
	wanted  bool            // what the others run matters here
	looked  bool            // the heartbeats were read
	agents  []string        // that other living workers can start
	missing map[string]bool // agents that no living worker runs: the log has them
}

// serves returns the agents that may run now.
func (e *elsewhere) serves() []string {
	return slices.DeleteFunc(slices.Clone(e.all), func(name string) bool { return !e.pauses.of(name).over() })
}

// runElsewhere returns the agents that other living workers run, and false before the first look.
func (e *elsewhere) runElsewhere() ([]string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.agents), func(name string) bool {
		// An agent of this worker that does not cover a session does not cover it elsewhere, either.
		return slices.Contains(e.all, name) && e.pauses.of(name).over()
	}), e.looked
}

// want lets the worker look at the others from now on.
func (e *elsewhere) want() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.wanted {
		e.wanted = true
		e.soon <- struct{}{} // there is room
	}
}

// unserved notes that a session was not claimed because of its agent, and logs the first one of each agent
// that no living worker runs. again: this worker has paused the agent, and others may take the session at once.
func (e *elsewhere) unserved(sessionKey, agent string, missing bool) (again bool) {
	if e.pauses.of(agent).failures > 0 {
		return true
	}
	e.want()
	e.mu.Lock()
	first := missing && !e.missing[agent]
	if first {
		e.missing[agent] = true
	}
	e.mu.Unlock()
	if first {
		e.log.Warn("sessions of an agent wait: no living worker runs it", "agent", agent, "session", sessionKey)
	}
	return false
}

// look reads the heartbeats.
func (e *elsewhere) look(ctx context.Context) error {
	beats, err := maintenance.Heartbeats(ctx, e.rdb)
	if err != nil {
		return err
	}
	var agents []string
	for _, beat := range beats {
		for _, name := range beat.Agents {
			if beat.Name != e.name && beat.Unable[name] == "" {
				agents = append(agents, name)
			}
		}
	}
	slices.Sort(agents)

	e.mu.Lock()
	defer e.mu.Unlock()
	e.looked, e.agents = true, slices.Compact(agents)
	for _, name := range e.agents {
		delete(e.missing, name)
	}
	return nil
}

// run looks until the worker ends.
func (e *elsewhere) run() {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	for {
		select {
		case <-e.life.work.Done():
			return
		case <-ticks.C:
		case <-e.soon:
		}
		e.mu.Lock()
		wanted := e.wanted
		e.mu.Unlock()
		if !wanted {
			continue
		}
		if err := e.look(e.life.work); err != nil && e.life.work.Err() == nil {
			e.log.Warn("the other workers' heartbeats cannot be read", "error", err)
		}
	}
}
