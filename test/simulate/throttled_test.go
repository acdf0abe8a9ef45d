package simulate

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/model"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// An hour in which a model's server refuses everything costs no message and one notice, with the default settings. Each
// turn asks it twice in the first minute, and then at most once a minute: whatever it asks for, and when the worker
// changes in between.
func TestHourOfRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asked string
		after func(kill, drain func())
	}{
		{"", func(_, drain func()) { drain() }},
		{"20", func(_, drain func()) { drain() }}, // the longest wait in a run
		{"30", func(kill, _ func()) { kill() }},
	} {
		t.Run(c.asked, func(t *testing.T) {
			t.Parallel()
			var hourIsOver atomic.Bool
			// It is not in the bubble, whose time stands still while a connection is open: none is kept.
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if hourIsOver.Load() {
					_, _ = w.Write([]byte(`{"choices":[{"message":{"content":"at last"},"finish_reason":"stop"}]}`))
					return
				}
				w.Header().Set("Retry-After", c.asked)
				w.WriteHeader(http.StatusTooManyRequests)
			}))
			server.Config.SetKeepAlivesEnabled(false)
			server.Start()
			defer server.Close()
			var requests []time.Time
			var runs, notices int
			o := inTime(t, worker.Config{}, func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
				a, err := model.New(model.Config{URL: server.URL, Model: "m", Logger: slog.New(slog.DiscardHandler)})
				expect.OK(t, err)
				expect.Equal(t, "attempt", turn.Attempt, 1)
				expect.Equal(t, "waits before", turn.Throttled, runs)
				runs++
				counted := *turn
				counted.Host.Emit = func(e agent.Event) {
					if turn.Emit(e); e.Type == session.EventNotice {
						notices++
					}
				}
				return a.Run(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) {
					requests = append(requests, time.Now())
					hourIsOver.Store(time.Since(requests[0]) >= time.Hour)
				}}), &counted)
			}, func(w *clocked) {
				time.Sleep(20 * time.Minute)
				c.after(w.kill, w.drain)
				w.worker()
			})
			expect.Equal(t, "status", o.Status, session.StatusDone)
			expect.Equal(t, "reply", o.Reply, "at last")
			expect.Equal(t, "notices", notices, 1)
			for i := 2; i < len(requests); i++ {
				if pause := requests[i].Sub(requests[i-1]); pause < time.Minute {
					t.Errorf("request %d came %s after the one before", i+1, pause)
				}
			}
			if took := requests[len(requests)-1].Sub(requests[0]); took > 2*time.Hour+15*time.Minute {
				t.Errorf("the turn was answered after %s", took)
			}
		})
	}
}
