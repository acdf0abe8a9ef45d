package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redisconn"
)

// connectTimeout bounds how long a Redis that does not answer can keep the
// caller waiting before anything was sent to it.
const connectTimeout = 5 * time.Second

// connect returns a client of a Redis that answers.
func connect(ctx context.Context, url string) (redis.UniversalClient, error) {
	// Waits are given half of the connections.
	rdb, err := redisconn.Open(url, redisconn.WithPoolSize(max(submitters, waiters)+waiters+2), redisconn.WithClientName("turnstile-enqueue"))
	if err != nil {
		return nil, usage(err)
	}
	dial, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- rdb.Ping(dial).Err() }() // looks at deadlines, not at Ctrl-C
	select {
	case err = <-answered:
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
