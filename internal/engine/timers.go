package engine

import (
	"context"
	"log/slog"
	"time"

	"turnstile/internal/recovery"
)

// timers look for sessions that nobody has woken. Every worker has them; Redis lets one
// at a time do each job.
type timers struct {
	recovery   *recovery.Recovery
	sweepEvery time.Duration
	life       *lifecycle
	duties     duties
	log        *slog.Logger
}

// start begins all jobs, until the intake ends.
func (t *timers) start() {
	t.life.run(func() { t.every(dutyDue, t.recovery.Due) })
	t.life.run(func() { t.every(dutyReap, t.reap) })
	t.life.run(func() { t.every(dutySweep, t.sweep) })
}

// every runs a periodic job. Failures are logged, and
// tried again with a pause that grows.
func (t *timers) every(name string, job func(context.Context) (time.Duration, error)) {
	pause, over := newPause(), t.life.intake.Done()
	for {
		next, err := job(t.life.work)
		if err != nil {
			t.log.Warn("a periodic job failed, trying again", "job", name, "error", err)
			t.duties.failed(name, err)
			pause.wait(over)
		} else {
			pause.reset()
		}
		select {
		case <-over:
			return
		case <-time.After(next):
		}
	}
}

func (t *timers) reap(ctx context.Context) (time.Duration, error) {
	n, next, err := t.recovery.Reap(ctx)
	if n > 0 {
		t.log.Info("late sessions were put to work", "sessions", n)
	}
	return next, err
}

func (t *timers) sweep(ctx context.Context) (time.Duration, error) {
	n, next, err := t.recovery.Sweep(ctx, t.sweepEvery)
	if n > 0 {
		t.log.Info("sessions were found that nobody had announced", "sessions", n)
	}
	return next, err
}
