package simulate

import (
	"context"
	"errors"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// An hour in which a provider refuses everything costs no message, with the default settings, and each turn asks it at
// most once a minute: whatever it asks for, and when the worker changes in between.
func TestHourOfRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asked time.Duration
		after func(kill, drain func())
	}{
		{0, func(_, drain func()) { drain() }},
		{30 * time.Second, func(kill, _ func()) { kill() }},
	} {
		t.Run(c.asked.String(), func(t *testing.T) {
			t.Parallel()
			var began time.Time
			var requests []time.Time
			o := inTime(t, worker.Config{}, func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
				now := time.Now()
				if began.IsZero() {
					began = now
				}
				if requests = append(requests, now); now.Sub(began) < time.Hour {
					return agent.Result{}, agent.Throttled(errors.New("too many requests"), c.asked)
				}
				expect.Equal(t, "attempt", turn.Attempt, 1)
				expect.Equal(t, "waits before", turn.Throttled, len(requests)-1)
				return agent.Result{Text: "at last"}, nil
			}, func(w *clocked) {
				time.Sleep(20 * time.Minute)
				c.after(w.kill, w.drain)
				w.worker()
			})
			expect.Equal(t, "status", o.Status, session.StatusDone)
			expect.Equal(t, "reply", o.Reply, "at last")
			for i := 2; i < len(requests); i++ { // the first wait is what was asked for
				if pause := requests[i].Sub(requests[i-1]); pause < time.Minute {
					t.Errorf("request %d came %s after the one before", i+1, pause)
				}
			}
			if took := requests[len(requests)-1].Sub(began); took > 2*time.Hour+15*time.Minute {
				t.Errorf("the turn was answered after %s", took)
			}
		})
	}
}
