package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/hibiken/asynq"
)

// retryAfter is how long a message waits after it found its session locked. It is also the interval
// of asynq's checks for such messages (5 s unless set). asynq keeps times in whole seconds.
const retryAfter = 100 * time.Millisecond

// lockTTL ends the lock of a worker that died. Nobody renews it, as the handler is short.
const lockTTL = 30 * time.Second

// asynqLock has one queue and a lock for each session. A handler that finds it locked returns an error,
// and asynq runs the message again later, after messages that were sent later.
type asynqLock struct{ *asynqClient }

func openAsynqLock(_ context.Context, j job) (client, error) {
	return asynqLock{newAsynqClient(j)}, nil
}

func (c asynqLock) work(_ context.Context, handle func([]byte) error) (func(), error) {
	locks := redislock.New(c.rdb)
	s := asynq.NewServerFromRedisClient(c.rdb, asynq.Config{
		Concurrency: c.slots, LogLevel: asynq.FatalLevel, // each retry is an error to its log
		DelayedTaskCheckInterval: retryAfter,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return retryAfter },
		IsFailure:                func(err error) bool { return !errors.Is(err, redislock.ErrNotObtained) },
	})
	err := s.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var m message
		if err := json.Unmarshal(t.Payload(), &m); err != nil {
			return err
		}
		lock, err := locks.Obtain(ctx, "lock:"+name(m.Session), lockTTL, nil)
		if err != nil {
			return err
		}
		return errors.Join(handle(t.Payload()), lock.Release(ctx))
	}))
	return s.Shutdown, err
}
