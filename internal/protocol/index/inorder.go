package index

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// InOrder sends the commands of each step before those of the next. A single Redis gets all steps
// in one pipeline. On a Cluster the parts of a pipeline go to their nodes at once, so InOrder waits
// for each step, and returns at the first error.
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
