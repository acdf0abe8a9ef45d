// Package daemon has the parts that a worker and a gateway share as processes: log, connection to
// Redis, HTTP, deliveries, memory limit.
package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
)

// RedisError is an error of a Redis client. Its text has the remedy.
type RedisError struct{ Err error }

func (e RedisError) Error() string { return redisconn.Explain(e.Err) }
func (e RedisError) Unwrap() error { return e.Err }

const (
	// patience is how long Redis may take to come up, since both are often started together. If
	// Redis takes longer, the supervisor restarts the worker.
	patience = 5 * time.Second

	retryPause = 200 * time.Millisecond
)

// Connect waits for Redis to come up, checks that it is fit for use, and returns a client.
func Connect(ctx context.Context, url string, log *slog.Logger, o ...redisconn.Option) (redis.UniversalClient, error) {
	rdb, warnings, err := Open(ctx, url, log, o...)
	for _, w := range warnings {
		log.Warn(w) //nolint:sloglint // a sentence for the operator
	}
	return rdb, err
}

// Open is like Connect, but returns the warnings of the check.
func Open(ctx context.Context, url string, log *slog.Logger, o ...redisconn.Option) (_ redis.UniversalClient, warnings []string, _ error) {
	rdb, err := redisconn.Open(url, o...)
	if err != nil {
		return nil, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if warnings, err = check(limited, rdb, log); err != nil {
		_ = rdb.Close()
		return nil, nil, RedisError{err}
	}
	return rdb, warnings, nil
}

// check repeats redisconn.Check until Redis is fit or refuses, or ctx ends. failed is the error of
// the last complete attempt.
func check(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) (warnings []string, failed error) {
	for {
		warnings, err := redisconn.Check(ctx, rdb)
		switch {
		case err == nil:
			return warnings, nil
		case ctx.Err() != nil && failed != nil:
			return nil, failed
		case ctx.Err() != nil || !mayPass(err):
			return nil, err
		case failed == nil:
			log.Info("Redis is not ready yet, trying again", "error", redisconn.Explain(err), "for", patience)
		}
		failed = err
		select {
		case <-ctx.Done():
			return nil, failed
		case <-time.After(retryPause):
		}
	}
}

// mayPass reports whether an error may come from a Redis that is still starting.
func mayPass(err error) bool {
	for _, unfit := range []error{redisconn.ErrTooOld, redisconn.ErrReplica, redisconn.ErrScheme} {
		if errors.Is(err, unfit) {
			return false
		}
	}
	var certificate *tls.CertificateVerificationError
	return !redisconn.Refused(err) && !errors.As(err, &certificate)
}
