// Package demo has the parts of runnable examples that they do not show: an embedded Redis, a
// worker, and small agents.
package demo

import (
	"context"
	"log/slog"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/pkg/agent"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// Redis starts an embedded Redis. A program connects to its own.
func Redis() (rdb redis.UniversalClient, stop func()) {
	server, err := miniredis.Run()
	Check(err)
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return rdb, func() {
		Check(rdb.Close())
		server.Close()
	}
}

// URL is the address of a Redis that Redis has started.
func URL(rdb redis.UniversalClient) string {
	return "redis://" + rdb.(*redis.Client).Options().Addr //nolint:forcetypeassert // Redis has made it
}

// Worker starts a Redis and a worker that runs an agent's turns. In production the worker is
// another process.
func Worker(a agent.Agent) (rdb redis.UniversalClient, stop func()) {
	rdb, stopRedis := Redis()
	w, err := worker.New(rdb, a, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	Check(err)
	Check(w.Start(context.Background()))
	return rdb, func() {
		_ = w.Stop(expect.Ended())
		stopRedis()
	}
}

// Check panics on an error: an example cannot return it.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}

// Shout replies with the message in capitals.
func Shout() agent.Func {
	return func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: strings.ToUpper(turn.Text())}, nil
	}
}

// Endless runs until its turn is cancelled. It sends to started when it runs.
func Endless(started chan<- struct{}) agent.Func {
	return func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		started <- struct{}{}
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	}
}
