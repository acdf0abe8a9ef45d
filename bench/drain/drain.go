package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/sessionqueue"
	"turnstile/pkg/worker"
)

const senders = 16

// drainAsynq drains n tasks from one queue with a handler that does nothing.
func drainAsynq(ctx context.Context, srv *server, n, slots int) (measure, error) {
	if err := srv.clear(ctx); err != nil {
		return measure{}, err
	}
	setup := srv.client()
	defer setup.Close()
	client := asynq.NewClientFromRedisClient(setup)
	if err := parallel(n, func(i int) error {
		_, err := client.Enqueue(asynq.NewTask("bench", []byte(`{"v":1,"text":"hello"}`)))
		return err
	}); err != nil {
		return measure{}, err
	}
	return timed(ctx, srv, n, func(rdb redis.UniversalClient, each func()) (func(), error) {
		s := asynq.NewServerFromRedisClient(rdb, asynq.Config{Concurrency: slots, LogLevel: asynq.ErrorLevel})
		err := s.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			each()
			return nil
		}))
		return s.Shutdown, err
	})
}

// counted is the echo agent that tells of each turn's end.
type counted struct {
	*echo.Agent
	each func()
}

func (c counted) Run(ctx context.Context, turn agent.Turn, emit func(agent.Event)) (agent.Result, error) {
	defer c.each()
	return c.Agent.Run(ctx, turn, emit)
}

// drainTurnstile drains a load with one worker.
func drainTurnstile(ctx context.Context, srv *server, l load, slots int) (measure, error) {
	if err := srv.clear(ctx); err != nil {
		return measure{}, err
	}
	setup := srv.client()
	defer setup.Close()
	client := sessionqueue.NewClient(setup)
	n := l.sessions * l.each
	if err := parallel(n, func(i int) error {
		_, err := client.Submit(ctx, fmt.Sprintf("bench:%d", i%l.sessions), session.Message{Text: "hello"})
		return err
	}); err != nil {
		return measure{}, err
	}
	return timed(ctx, srv, n, func(rdb redis.UniversalClient, each func()) (func(), error) {
		w, err := worker.New(rdb, counted{echo.New(), each}, worker.Options{
			Concurrency: slots, DrainTimeout: time.Minute, Maintenance: true,
			Queue:  sessionqueue.Config{Retention: time.Hour},
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return nil, err
		}
		return func() { w.Drain(ctx, worker.ReasonShutdown) }, w.Start(ctx)
	})
}

// parallel calls f for 0..n-1 from a few goroutines.
func parallel(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, senders)
	for s := range senders {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := s; i < n; i += senders {
				if err := f(i); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}
