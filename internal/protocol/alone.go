package protocol

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// AloneFor is how long a job is left to its worker, which extends that as it goes: should
// it die, another one begins anew.
const AloneFor = 5 * time.Second

// Alone has one worker at a time do a job for all, by a short-lived key for each job.
type Alone struct {
	rdb    redis.UniversalClient
	worker string
}

// Alone is of this consumer's worker.
func (c *Consumer) Alone() Alone { return Alone{c.rdb, c.cfg.Worker} }

// Take takes the timer's key for at most hold; false: another worker has it.
func (a Alone) Take(ctx context.Context, job string, hold time.Duration) (bool, error) {
	err := a.rdb.SetArgs(ctx, rediskey.Timer(job), a.worker, redis.SetArgs{Mode: "NX", TTL: hold}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

// Yield lets the next run begin after pause.
func (a Alone) Yield(ctx context.Context, job string, pause time.Duration) error {
	return a.rdb.PExpire(ctx, rediskey.Timer(job), pause).Err()
}

// Run runs a job unless another worker does. The job calls goOn after each batch, which
// extends its time and answers an error once it is to end. When ctx ends there is no
// error: what is left is the next run's.
func (a Alone) Run(ctx context.Context, job string, run func(goOn func() error) error) error {
	ok, err := a.Take(ctx, job, AloneFor)
	if ok {
		err = run(func() error { return errors.Join(ctx.Err(), a.Yield(ctx, job, AloneFor)) })
		err = errors.Join(err, a.rdb.Del(context.WithoutCancel(ctx), rediskey.Timer(job)).Err())
	}
	if ctx.Err() != nil {
		err = nil
	}
	return err
}
