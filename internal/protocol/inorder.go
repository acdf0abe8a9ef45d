package protocol

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// InOrder sends commands, those of a step before those of the next. One Redis gets
// all of them in one pipeline. The parts of a pipeline that go to several nodes of a
// Cluster are sent at once, so there each step is waited for, and none follows one
// that failed.
func InOrder(ctx context.Context, rdb redis.Cmdable, steps ...func(redis.Pipeliner)) error {
	_, single := rdb.(*redis.Client)
	for i := range steps {
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			if !single {
				steps[i](p)
				return nil
			}
			for _, step := range steps {
				step(p)
			}
			return nil
		})
		if err != nil || single {
			return err
		}
	}
	return nil
}
