package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/agents"
	"turnstile/internal/maintenance"
)

// neighboursEvery is how often a worker with named agents looks at the others' heartbeats.
const neighboursEvery = 5 * time.Second

// neighbours says which agents the worker may run. A worker of the version before runs its only agent
// in every session: while one lives, sessions of other agents wait.
type neighbours struct {
	all  []string // the worker's agents
	rdb  redis.UniversalClient
	life *lifecycle
	log  *slog.Logger

	know atomic.Bool // every living worker knows agents by name
}

// serves returns the agents that may run now.
func (n *neighbours) serves() []string {
	if n.know.Load() {
		return n.all
	}
	return slices.DeleteFunc(slices.Clone(n.all), func(name string) bool { return name != agents.Default })
}

// look reads the heartbeats.
func (n *neighbours) look(ctx context.Context) error {
	beats, err := maintenance.Heartbeats(ctx, n.rdb)
	if err != nil {
		return err
	}
	know, old := true, ""
	for _, beat := range beats {
		if len(beat.Agents) == 0 {
			know, old = false, beat.Name
		}
	}
	switch was := n.know.Swap(know); {
	case was && !know:
		n.log.Warn("sessions of named agents wait: a worker of the version before would run any session with its own agent", "neighbour", old)
	case !was && know:
		n.log.Info("sessions of named agents run")
	}
	return nil
}

// run looks until the worker stops taking sessions.
func (n *neighbours) run() {
	ticks := time.NewTicker(neighboursEvery)
	defer ticks.Stop()
	for {
		select {
		case <-n.life.intake.Done():
			return
		case <-ticks.C:
		}
		if err := n.look(n.life.intake); err != nil && n.life.intake.Err() == nil {
			n.log.Warn("the other workers' heartbeats cannot be read", "error", err)
		}
	}
}
