package engine

import (
	"context"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/agent"
)

// Run is a worker's whole life: it runs the agent's turns until ctx ends, drains
// as Drain does, and returns when nothing of the worker is left. The running turns may
// go on for opts.DrainTimeout, by default not at all; an interrupted one is resumed by
// the next worker. ctx does not bound the drain, whose reason is ReasonShutdown.
//
// Run waits for a Redis that is away. Its error is that of wrong options, or of a start
// that failed, after which the worker was drained as well. nil: it ran, or ctx ended
// before it could. The caller closes rdb after Run.
//
// A program that does nothing else calls exec.InitWorker first thing in main: it keeps
// agents that are programs out of this process.
//
// A program that wants a second signal to cut the drain short, or to show how far it is,
// calls New, Start and Drain.
func Run(ctx context.Context, rdb redis.UniversalClient, a agent.Agent, opts Options) error {
	w, err := New(rdb, a, opts)
	if err != nil {
		return err
	}
	defer w.Drain(context.WithoutCancel(ctx), ReasonShutdown)
	if ctx.Err() != nil {
		return nil
	}
	if err := w.Start(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}
