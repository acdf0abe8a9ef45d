package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/maintenance"
)

// neighboursEvery is how often a worker looks at the others' heartbeats, if it has named agents, has met a
// session whose agent it does not run, or has written a journal.
const neighboursEvery = 5 * time.Second

// neighbours says which agents this worker may run, and which the others run. A worker of the version
// before runs its only agent in every session: while one lives, sessions of other agents wait.
type neighbours struct {
	name   string   // of this worker
	all    []string // its agents
	named  bool     // it has other agents than the default one
	pauses *pauses  // of its agents
	rdb    redis.UniversalClient
	life   *lifecycle
	log    *slog.Logger
	soon   chan struct{} // the first journal waits for a look

	mu        sync.Mutex
	wanted    bool            // what the others know matters here
	looked    bool            // the heartbeats were read
	know      bool            // every living worker knows agents by name
	journals  bool            // every living worker reads journals
	elsewhere []string        // agents that other living workers can start
	missing   map[string]bool // agents that no living worker runs: the log has them
}

// serves returns the agents that may run now.
func (n *neighbours) serves() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.all), func(name string) bool {
		return n.named && !n.know && name != agents.Default || !n.pauses.of(name).over()
	})
}

// runElsewhere returns the agents that other living workers run, and false before the first look.
func (n *neighbours) runElsewhere() ([]string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.elsewhere), func(name string) bool {
		// An agent of this worker that does not cover a session does not cover it elsewhere, either.
		return slices.Contains(n.all, name) && n.pauses.of(name).over()
	}), n.looked
}

// partials reports whether a worker lives that reads only partials, or may live: before the first look.
func (n *neighbours) partials() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.wanted {
		n.wanted = true
		n.soon <- struct{}{} // there is room
	}
	return !n.looked || !n.journals
}

// unserved notes that a session was not claimed because of its agent, and logs the first one of each agent
// that no living worker runs. again: this worker has paused the agent, and others may take the session at once.
func (n *neighbours) unserved(sessionKey, agent string, missing bool) (again bool) {
	if n.pauses.of(agent).failures > 0 {
		return true
	}
	n.mu.Lock()
	n.wanted = true
	first := missing && !n.missing[agent]
	if first {
		n.missing[agent] = true
	}
	n.mu.Unlock()
	if first {
		n.log.Warn("sessions of an agent wait: no living worker runs it", "agent", agent, "session", sessionKey)
	}
	return false
}

// look reads the heartbeats.
func (n *neighbours) look(ctx context.Context) error {
	beats, err := maintenance.Heartbeats(ctx, n.rdb)
	if err != nil {
		return err
	}
	know, journals, old := true, true, ""
	for _, beat := range beats {
		journals = journals && beat.Journals
		if len(beat.Agents) == 0 {
			know, old = false, beat.Name
		}
	}
	var elsewhere []string
	for _, beat := range beats {
		for _, name := range beat.Agents {
			if beat.Name != n.name && beat.Unable[name] == "" && (know || name == agents.Default) {
				elsewhere = append(elsewhere, name)
			}
		}
	}
	slices.Sort(elsewhere)

	n.mu.Lock()
	was := n.know || !n.looked
	n.looked, n.know, n.journals, n.elsewhere = true, know, journals, slices.Compact(elsewhere)
	for _, name := range n.elsewhere {
		delete(n.missing, name)
	}
	n.mu.Unlock()
	switch {
	case n.named && was && !know:
		n.log.Warn("sessions of named agents wait: a worker of the version before would run any session with its own agent", "neighbour", old)
	case n.named && !was && know:
		n.log.Info("sessions of named agents run")
	}
	return nil
}

// run looks until the worker ends: a drain, too, parks turns only if all workers know parked ones.
func (n *neighbours) run() {
	ticks := time.NewTicker(neighboursEvery)
	defer ticks.Stop()
	for {
		select {
		case <-n.life.work.Done():
			return
		case <-ticks.C:
		case <-n.soon:
		}
		n.mu.Lock()
		wanted := n.named || n.wanted
		n.mu.Unlock()
		if !wanted {
			continue
		}
		if err := n.look(n.life.work); err != nil && n.life.work.Err() == nil {
			n.log.Warn("the other workers' heartbeats cannot be read", "error", err)
		}
	}
}
