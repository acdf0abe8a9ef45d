package engine

import (
	"context"
	"time"
)

// every runs a periodic job until the worker drains. Failures are logged, and
// tried again with a pause that grows.
func (w *Worker) every(name string, job func(context.Context) (time.Duration, error)) {
	pause := newPause()
	for {
		next, err := job(w.ctx)
		if err != nil {
			w.log.Warn("a periodic job failed, trying again", "job", name, "error", err)
			w.redisFailed(name, err)
			pause.wait(w.draining)
		} else {
			pause.reset()
		}
		select {
		case <-w.draining:
			return
		case <-time.After(next):
		}
	}
}

func (w *Worker) due(ctx context.Context) (time.Duration, error) { return w.recovery.Due(ctx) }

func (w *Worker) reap(ctx context.Context) (time.Duration, error) {
	n, next, err := w.recovery.Reap(ctx)
	if n > 0 {
		w.log.Info("late sessions were put to work", "sessions", n)
	}
	return next, err
}

func (w *Worker) sweep(ctx context.Context) (time.Duration, error) {
	n, next, err := w.recovery.Sweep(ctx, w.opts.SweepInterval)
	if n > 0 {
		w.log.Info("sessions were found that nobody had announced", "sessions", n)
	}
	return next, err
}
