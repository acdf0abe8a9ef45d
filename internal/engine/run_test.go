package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"turnstile/internal/engine"
	sq "turnstile/internal/protocol"
	"turnstile/internal/redisconn"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// slow answers when it is released, unless it is interrupted.
type slow struct{ release chan struct{} }

func (s slow) Run(ctx context.Context, _ agent.Turn, emit func(agent.Event)) (agent.Result, error) {
	emit(agent.Event{Type: agent.EventToolStart, Name: "wait", CallID: "1"})
	select {
	case <-s.release:
		return agent.Result{Text: "done"}, nil
	case <-ctx.Done():
		return agent.Result{}, context.Cause(ctx)
	}
}

// run starts engine.Run, and answers what tells it to end and what it returned.
func (r *rig) run(ctx context.Context, a agent.Agent, drain time.Duration) (end func(), ended <-chan error) {
	r.Helper()
	rdb, err := redisconn.Open(r.url)
	expect.OK(r, err)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		done <- engine.Run(ctx, rdb, a, engine.Options{
			Queue: sq.Config{Retention: time.Hour}, DrainTimeout: drain, Logger: slog.New(slog.DiscardHandler),
		})
	}()
	r.Cleanup(func() {
		cancel()
		<-returned
		_ = rdb.Close()
	})
	return cancel, done
}

func TestRunDrainsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	for name, drain := range map[string]time.Duration{"finishes": time.Minute, "gives back": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a := slow{make(chan struct{})}
			end, ended := r.run(r.ctx, a, drain)
			r.say("m1", "hello")
			r.awaitEvent("the agent at work", func(e session.Event) bool { return e.Type == string(agent.EventToolStart) })
			end()
			if drain > 0 {
				r.awaitEvent("the drain", func(e session.Event) bool { return e.Type == session.EventNotice })
				close(a.release)
			}
			expect.OK(t, expect.Received(t, "the end of Run", ended))
			r.free("after Run")
			if drain > 0 {
				expect.Equal(t, "reply", r.ends("m1", session.StatusDone).Reply, "done")
			} else {
				expect.Equal(t, "waiting messages", r.info().Pending, 1)
			}
		})
	}
}

func TestRunWithoutATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	_, done := r.run(ended(), slow{}, time.Minute)
	expect.OK(t, expect.Received(t, "the end of Run", done))
	if starts := r.starts(r.key); len(starts) > 0 {
		t.Errorf("turns of %q were started", starts)
	}
}

func TestRunRefusesWrongOptions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	err := engine.Run(ended(), r.rdb, slow{}, engine.Options{Concurrency: -1})
	if err == nil || !strings.Contains(err.Error(), "Concurrency") {
		t.Errorf("error %v", err)
	}
}

// It waits for its Redis, and can be told to end while it does.
func TestRunWithoutRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rdb, err := redisconn.Open(r.url)
	expect.OK(t, err)
	expect.OK(t, rdb.Close())
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx, rdb, slow{}, engine.Options{Logger: slog.New(slog.DiscardHandler)}) }()
	expect.OK(t, expect.Received(t, "the end of Run", done))
}
