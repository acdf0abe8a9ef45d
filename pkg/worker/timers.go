package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"turnstile/internal/backoff"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/recovery"
)

// timers run the jobs that wake sessions: due ones, and those without their owner or a wake-up.
// Every worker has them, but only one worker at a time does each job.
type timers struct {
	recovery   *recovery.Recovery
	sweepEvery time.Duration
	life       *lifecycle
	duties     duties
	log        *slog.Logger
}

// start starts all jobs, which end with the intake.
func (t *timers) start() {
	t.life.run(func() { t.every(dutyDue, t.recovery.Due) })
	t.life.run(func() { t.every(dutyReap, t.reap) })
	t.life.run(func() { t.every(dutySweep, t.sweep) })
}

// warnAgain is how often a worker repeats the warning about a session that only an operator can
// repair.
const warnAgain = 10 * time.Minute

// every runs a periodic job. It logs a failure and tries again after a growing pause. Broken sessions
// that stay the same are logged once in warnAgain.
func (t *timers) every(name string, job func(context.Context) (time.Duration, error)) {
	failures, over := 0, t.life.intake.Done()
	var warned time.Time
	var last string
	for {
		next, err := job(t.life.work)
		if err != nil {
			if !errors.Is(err, protocol.ErrBroken) || err.Error() != last || time.Since(warned) >= warnAgain {
				t.log.Warn("a periodic job failed, trying again", "job", name, "error", err)
				last, warned = err.Error(), time.Now()
			}
			t.duties.failed(name, err)
			failures++
			backoff.Redis.Wait(over, failures)
		} else {
			failures = 0
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
		t.log.Info("overdue sessions were woken", "sessions", n)
	}
	return next, err
}

func (t *timers) sweep(ctx context.Context) (time.Duration, error) {
	n, next, err := t.recovery.Sweep(ctx, t.sweepEvery)
	if n > 0 {
		t.log.Info("lost wake-ups were found", "sessions", n)
	}
	return next, err
}
