package engine

import (
	"context"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/agent"
)

// Run is a worker's whole life: it runs the agent's turns until ctx ends, then drains
// as Drain does, and returns when nothing of the worker is left. The running turns may
// go on for opts.DrainTimeout, which is not at all by default; what is cut off goes to
// the next worker. The drain itself is not bounded by ctx, and its reason is
// ReasonShutdown.
//
// A Redis that is away is waited for. The error is that of options that are wrong, or
// of a start that failed; the worker is drained then, too. nil: it ran, or ctx ended
// before it could. The caller closes rdb, after Run.
//
// A program that does nothing else calls exec.InitWorker first thing in main: it keeps
// agents that are programs out of this process.
//
// Programs that want a second signal to cut the drain short, or to see how far it is,
// call New, Start and Drain.
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
