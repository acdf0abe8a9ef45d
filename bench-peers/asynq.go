package main

import (
	"context"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
)

const taskType = "bench"

// asynqClient is plain asynq: one queue, and handlers without sessions. A session's messages overtake
// each other and run at the same time.
type asynqClient struct {
	rdb    redis.UniversalClient
	sender *asynq.Client
	slots  int
}

func openAsynq(_ context.Context, j job) (client, error) { return newAsynqClient(j), nil }

func newAsynqClient(j job) *asynqClient {
	rdb := lab.Open(j.Address, 0, "")
	return &asynqClient{rdb, asynq.NewClientFromRedisClient(rdb), j.Slots}
}

func (c *asynqClient) send(ctx context.Context, _ int, text []byte) error {
	_, err := c.sender.EnqueueContext(ctx, asynq.NewTask(taskType, text))
	return err
}

func (c *asynqClient) work(_ context.Context, handle func([]byte) error) (func(), error) {
	s := asynq.NewServerFromRedisClient(c.rdb, asynq.Config{Concurrency: c.slots, LogLevel: asynq.ErrorLevel})
	err := s.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error { return handle(t.Payload()) }))
	return s.Shutdown, err
}

func (c *asynqClient) close() { _ = c.rdb.Close() }
