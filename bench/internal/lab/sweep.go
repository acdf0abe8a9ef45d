package lab

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/recovery"
	"turnstile/internal/protocol/rediskey"
)

// SweepEvery is the workers' SweepInterval.
const SweepEvery = 15 * time.Second

// Cost is that of sweeps, or of looks, over some sessions.
type Cost struct {
	Took              []time.Duration
	Redis             []float64 // us for each session
	Commands, Scripts float64   // for each session
}

// Sweeps measures sweeps over n sessions, while no worker lives.
func Sweeps(ctx context.Context, srv *Server, n, sweeps int) (Cost, error) {
	return MeasureCost(ctx, srv, n, sweeps, func(rdb redis.UniversalClient) error {
		consumer, err := protocol.NewConsumer(rdb, protocol.Config{Worker: "bench"})
		if err == nil {
			err = rdb.Del(ctx, rediskey.Timer("sweep")).Err()
		}
		if err == nil {
			_, _, err = recovery.New(rdb, consumer).Sweep(ctx, SweepEvery)
		}
		return err
	})
}

// MeasureCost measures what do sends, in some rounds with a new client each.
func MeasureCost(ctx context.Context, srv *Server, n, rounds int, do func(redis.UniversalClient) error) (c Cost, err error) {
	for range rounds {
		rdb, admin := srv.Client(), srv.Client()
		defer rdb.Close()
		defer admin.Close()
		sent := Count(rdb)
		if err := admin.ConfigResetStat(ctx).Err(); err != nil {
			return c, err
		}
		began := time.Now()
		if err := do(rdb); err != nil {
			return c, err
		}
		c.Took = append(c.Took, time.Since(began))
		commands := sent.Commands()
		us, err := RedisTime(ctx, admin, commands)
		if err != nil {
			return c, err
		}
		c.Redis = append(c.Redis, us/float64(n))
		c.Commands, c.Scripts = float64(sent.Total())/float64(n), float64(commands["evalsha"])/float64(n)
	}
	return c, nil
}
