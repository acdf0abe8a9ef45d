package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
	"turnstile/test/watched"
)

// A worker says that its lease is too short for its round trips to Redis, at its start or when Redis becomes
// slow. However many turns lose it, the log has that and one of the turns a minute.
func TestShortLease(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	const says = "the lease is too short for the round trips to Redis"
	for name, fromStart := range map[string]bool{"at the start": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, log, began := newRig(t), watched.NewOutput(), time.Now()
			ttl := expect.Lease(time.Second)
			var f redistest.Faults
			if fromStart {
				f.Delay(redistest.Named("ping"), ttl/4)
				f.Delay(renewing, ttl)
			}
			var lost atomic.Int32
			r.worker(agent.Func(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
				<-ctx.Done()
				return agent.Result{}, context.Cause(ctx)
			}), faulty(&f), sentinelTTL(ttl), with(func(o *worker.Config) {
				o.Logger = slog.New(slog.NewTextHandler(log, nil))
				o.Observer.TurnEnded = func(e worker.TurnEnd) {
					if e.Status == worker.StatusLost {
						lost.Add(1)
					}
				}
			}))
			expect.Equal(t, "the line at the start", strings.Contains(log.String(), says), fromStart)
			if !fromStart {
				f.Delay(renewing, ttl/2)
			}
			for _, id := range []string{"m1", "m2", "m3"} {
				r.send(r.key+id, turnstile.Message{ID: id, Text: "hello"})
			}
			if log.Await(t, says); !fromStart {
				return
			}
			expect.Soon(t, "lost turns", func() bool { return lost.Load() >= 3 })
			minutes, text := int(time.Since(began)/time.Minute), log.String()
			for _, part := range []string{says, "status=lost"} {
				if n := strings.Count(text, part); n < 1 || n > 1+minutes {
					t.Errorf("%d lines with %q: %s", n, part, text)
				}
			}
			if !strings.Contains(text, " lease="+ttl.String()+" at_least=") {
				t.Error(text)
			}
		})
	}
}
