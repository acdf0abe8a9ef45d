package lab

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
)

// Countdown waits for n events.
type Countdown struct {
	left atomic.Int64
	none chan struct{}
}

// NewCountdown counts from n, which is at least 1.
func NewCountdown(n int) *Countdown {
	c := &Countdown{none: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

// One counts one event.
func (c *Countdown) One() {
	if c.left.Add(-1) == 0 {
		close(c.none)
	}
}

// Wait waits for the last event.
func (c *Countdown) Wait(ctx context.Context) error {
	select {
	case <-c.none:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Echo is the echo agent with a call of Each at the end of each turn.
type Echo struct {
	*echo.Agent
	Each func()
}

// Run implements agent.Agent.
func (e Echo) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	defer e.Each()
	return e.Agent.Run(ctx, turn)
}

// RunAll makes a worker run the n queued messages, and drains it.
func RunAll(ctx context.Context, rdb redis.UniversalClient, n int, opts worker.Config) error {
	if n == 0 {
		return nil
	}
	left := NewCountdown(n)
	w, err := Work(ctx, rdb, Echo{echo.New(), left.One}, opts)
	if err != nil {
		return err
	}
	defer Stop(ctx, w)
	return left.Wait(ctx)
}

// InParts calls do for parts of n sessions, from a number on. Otherwise a line of a million sessions would wait, which
// is drained slowly, and is not what is measured.
func InParts(n int, do func(from, n int) error) error {
	const part = 50_000
	for from := 0; from < n; from += part {
		if err := do(from, min(part, n-from)); err != nil {
			return err
		}
	}
	return nil
}

// Known makes n sessions that had one turn each.
func Known(ctx context.Context, rdb redis.UniversalClient, prefix string, n int) error {
	return InParts(n, func(from, n int) error {
		if err := (Load{Sessions: n, Each: 1}).Fill(ctx, rdb, fmt.Sprintf("%s:%d", prefix, from), "hello"); err != nil {
			return err
		}
		return RunAll(ctx, rdb, n, Production(50))
	})
}
