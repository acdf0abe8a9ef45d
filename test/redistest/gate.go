package redistest

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Gate holds commands until it is released, or until their context ends.
type Gate struct {
	arrived chan redis.Cmder
	open    chan struct{}
	once    sync.Once
}

func newGate() *Gate {
	return &Gate{arrived: make(chan redis.Cmder, 4096), open: make(chan struct{})}
}

// Arrived receives each command that comes to the closed gate. Of a pipeline it receives the first
// command.
func (g *Gate) Arrived() <-chan redis.Cmder { return g.arrived }

// Release opens the gate for good. A second call does nothing.
func (g *Gate) Release() { g.once.Do(func() { close(g.open) }) }

func (g *Gate) pass(ctx context.Context, cmds []redis.Cmder) error {
	select {
	case <-g.open:
		return nil
	default:
	}
	select {
	case g.arrived <- cmds[0]:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
