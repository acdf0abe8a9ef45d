package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
)

// connectTimeout bounds the wait for a Redis that does not respond, before anything was sent to it.
const connectTimeout = 5 * time.Second

// connect returns a client of a Redis that responds.
func connect(ctx context.Context, url string) (redis.UniversalClient, error) {
	// Waits may use half of the connections.
	rdb, err := redisconn.Open(url, redisconn.WithPoolSize(max(senders, waiters)+waiters+2), redisconn.WithClientName("turnstile-enqueue"))
	if err != nil {
		return nil, usage(err)
	}
	dial, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	responded := make(chan error, 1)
	go func() { responded <- rdb.Ping(dial).Err() }() // it heeds deadlines, not Ctrl-C
	select {
	case err = <-responded:
		if err == nil {
			return rdb, nil
		}
	case <-ctx.Done():
	}
	_ = rdb.Close()
	if ctx.Err() != nil {
		return nil, failure{code: exitInterrupted, text: "interrupted; nothing was stored"}
	}
	return nil, failure{code: exitOther, text: redisconn.Explain(err) + "; nothing was stored"}
}
