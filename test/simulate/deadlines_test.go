package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// limit is the time for a question, a wait or a turn.
const limit = time.Minute

// clocked runs one turn in simulated time, on workers that come one after the other.
type clocked struct {
	*testing.T
	server *server
	config worker.Config
	agent  agent.Agent
	rdb    redis.UniversalClient
	chat   *turnstile.Session
	ends   []func()

	kill, drain func() // of the last worker
}

// inTime begins a turn in a bubble, lets it happen, and waits for its end.
func inTime(t *testing.T, config worker.Config, a agent.Func, happens func(c *clocked)) (o session.Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config.Logger, config.Concurrency = slog.New(slog.DiscardHandler), 1
		s, err := startServer(1)
		expect.OK(t, err)
		c := &clocked{T: t, server: s, config: config, agent: a, rdb: open(s.link("sender"))}
		c.chat = turnstile.NewClient(c.rdb).Session("s")
		c.worker()
		_, err = c.chat.Send(t.Context(), turnstile.Message{ID: "m", Text: "hello"})
		expect.OK(t, err)
		if happens != nil {
			happens(c)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		o, err = c.chat.Wait(ctx, "m")
		expect.OK(t, err)
		for _, end := range c.ends {
			end()
		}
		_ = c.rdb.Close()
		s.redis.Close()
		time.Sleep(time.Minute) // as in run
	})
	return o
}

// worker starts one more worker.
func (c *clocked) worker() {
	l := c.server.link(fmt.Sprint("worker", len(c.ends)))
	rdb, config := open(l), c.config
	config.Name = l.name
	w, err := worker.New(rdb, c.agent, config)
	expect.OK(c, err)
	expect.OK(c, w.Start(c.Context()))
	c.ends = append(c.ends, func() {
		_ = w.Stop(expect.Ended())
		_ = rdb.Close()
	})
	c.kill, c.drain = func() { l.setDown(true); l.cut(true) }, func() { _ = w.Stop(c.Context()) }
}

// A question, a wait and a timer end when their time since they were asked is over, and at most a second later: in the
// run that asked, after a park, and in the run after a drain or a dead worker, in which they are parked again.
func TestWaitsEndOnTime(t *testing.T) {
	t.Parallel()
	for kind, waits := range map[string]func(context.Context, *agent.Turn) error{
		"question": func(ctx context.Context, turn *agent.Turn) error {
			d, err := turn.Ask(ctx, agent.Question{Key: "k", Name: "k"})
			if d.Allowed() {
				err = errors.New("allowed")
			}
			return err
		},
		"value": func(ctx context.Context, turn *agent.Turn) error {
			_, err := turn.Wait(ctx, agent.Wait{Key: "k", Timeout: limit})
			if errors.Is(err, agent.ErrNoValue) {
				return nil
			}
			return errors.Join(err, context.Cause(ctx))
		},
		"timer": func(ctx context.Context, turn *agent.Turn) error {
			_, err := turn.Wait(ctx, agent.Wait{Key: "k", Timeout: limit, Timer: true})
			return err
		},
	} {
		for _, park := range []time.Duration{session.NoLimit, time.Second, 25 * time.Second, limit - time.Second} {
			for how, after := range map[string]func(kill, drain func()){
				"undisturbed": nil, "killed": func(kill, _ func()) { kill() }, "drained": func(_, drain func()) { drain() },
			} {
				t.Run(fmt.Sprint(kind, " parked after ", park, " ", how), func(t *testing.T) {
					t.Parallel()
					var began, ended time.Time
					o := inTime(t, worker.Config{AskTimeout: limit, ParkAfter: park}, func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
						if began.IsZero() {
							began = time.Now()
						}
						if err := waits(ctx, turn); err != nil {
							return agent.Result{}, err
						}
						ended = time.Now()
						return agent.Result{Text: "on time"}, nil
					}, func(c *clocked) {
						if after != nil {
							time.Sleep(limit / 3)
							after(c.kill, c.drain)
							c.worker()
						}
					})
					expect.Equal(t, "reply", o.Reply, "on time")
					if took := ended.Sub(began); took < limit || took > limit+time.Second {
						t.Errorf("it took %s", took)
					}
				})
			}
		}
	}
}

// A turn with steps has its time once, in however many runs: after parks, failures, drains and dead workers.
func TestTurnEndsOnTime(t *testing.T) {
	t.Parallel()
	for how, over := range map[string]func(ctx context.Context, turn *agent.Turn, run int) error{
		"parked": func(ctx context.Context, turn *agent.Turn, run int) error {
			_, err := turn.Wait(ctx, agent.Wait{Key: fmt.Sprint(run), Timer: true, Timeout: limit})
			return err
		},
		"failed": func(_ context.Context, _ *agent.Turn, _ int) error { return agent.Retryable(errors.New("again")) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			var worked time.Duration
			runs := 0
			o := inTime(t, worker.Config{AgentTimeout: limit, ParkAfter: time.Millisecond, MaxAttempts: 100}, func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
				runs++
				began := time.Now()
				for run := range 10 {
					spec := agent.StepSpec{Key: fmt.Sprint(run), Name: "work"}
					record, err := turn.StartStep(ctx, spec)
					if err != nil {
						return agent.Result{}, err
					}
					if record.State == agent.StepNew {
						select {
						case <-time.After(limit / 4):
						case <-ctx.Done():
							worked += time.Since(began)
							return agent.Result{}, context.Cause(ctx)
						}
						worked += time.Since(began)
						if err := turn.EndStep(ctx, spec, agent.StepEnd{Output: []byte("1")}); err != nil {
							return agent.Result{}, err
						}
						if err := over(ctx, turn, run); err != nil {
							return agent.Result{}, err
						}
						began = time.Now()
					} else if how == "parked" {
						if _, err := turn.Wait(ctx, agent.Wait{Key: fmt.Sprint(run), Timer: true, Timeout: limit}); err != nil {
							return agent.Result{}, err
						}
					}
				}
				return agent.Result{Text: "never"}, nil
			}, nil)
			expect.Equal(t, "status", o.Status, session.StatusFailed)
			if worked < limit-time.Second || worked > limit+time.Second || runs < 4 {
				t.Errorf("it worked for %s in %d runs: %s", worked, runs, o.Error)
			}
		})
	}
}
