package service

import (
	"context"
	"time"

	"turnstile/internal/redis/devredis"
	"turnstile/internal/redis/redisconn"
)

// fitTimeout bounds the check of a Redis that was started.
const fitTimeout = 5 * time.Second

// StartRedis starts the Redis of --dev. Nothing in it is kept.
func StartRedis(ctx context.Context) (*devredis.Server, error) {
	return devredis.Start(ctx, devredis.Options{Fit: fit})
}

// fit checks that Turnstile can use a Redis.
func fit(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, fitTimeout)
	defer cancel()
	rdb, err := redisconn.Open(url, redisconn.WithPoolSize(1))
	if err != nil {
		return err
	}
	defer rdb.Close()
	_, err = redisconn.Check(ctx, rdb)
	return err
}
