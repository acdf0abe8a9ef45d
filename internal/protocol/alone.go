package protocol

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
)

// AloneFor is how long a worker has a job. The worker extends it between batches. If it dies,
// another worker starts the job again after that time.
const AloneFor = 5 * time.Second

// Alone lets one worker at a time do a job for all of them. Each job has a key with a short TTL.
type Alone struct {
	rdb    redis.UniversalClient
	worker string
}

// Alone returns the Alone of this consumer's worker.
func (c *Consumer) Alone() Alone { return Alone{c.rdb, c.cfg.Worker} }

// Take takes the job's key for at most ttl. It returns false if another worker has it.
func (a Alone) Take(ctx context.Context, job string, ttl time.Duration) (bool, error) {
	err := a.rdb.SetArgs(ctx, rediskey.Timer(job), a.worker, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

// Yield lets another worker start the job after pause.
func (a Alone) Yield(ctx context.Context, job string, pause time.Duration) error {
	return a.rdb.PExpire(ctx, rediskey.Timer(job), pause).Err()
}

// Run does a job unless another worker has it. run calls extend after each batch: it extends the
// job's time, and returns an error if the job must end. The end of ctx is not an error: the next
// run does the rest.
func (a Alone) Run(ctx context.Context, job string, run func(extend func() error) error) error {
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
