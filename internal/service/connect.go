package service

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redisconn"
)

// RedisError is an error of a Redis client, in words that say what to do.
type RedisError struct{ Err error }

func (e RedisError) Error() string { return redisconn.Explain(e.Err) }
func (e RedisError) Unwrap() error { return e.Err }

const (
	// patience is how long a Redis may take to come up: whatever starts the worker
	// often starts Redis just before. It is for the supervisor to try longer.
	patience = 5 * time.Second

	retryPause = 200 * time.Millisecond
)

// Connect returns a client of a Redis that is there and fit for use.
func Connect(ctx context.Context, url string, log *slog.Logger, o ...redisconn.Option) (redis.UniversalClient, error) {
	rdb, err := redisconn.Open(url, o...)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	warnings, err := check(limited, rdb, log)
	if err != nil {
		_ = rdb.Close()
		return nil, RedisError{err}
	}
	for _, w := range warnings {
		log.Warn(w) //nolint:sloglint // a sentence for the operator
	}
	return rdb, nil
}

// check asks until Redis is fit, is found unfit, or ctx ends. It answers why the
// last complete attempt failed.
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
			log.Info("Redis is not there yet, trying again", "error", redisconn.Explain(err), "for", patience)
		}
		failed = err
		select {
		case <-ctx.Done():
			return nil, failed
		case <-time.After(retryPause):
		}
	}
}

// mayPass tells errors of a Redis that comes up from those of one that is wrong.
func mayPass(err error) bool {
	for _, unfit := range []error{redisconn.ErrTooOld, redisconn.ErrReplica, redisconn.ErrScheme} {
		if errors.Is(err, unfit) {
			return false
		}
	}
	var certificate *tls.CertificateVerificationError
	return !redisconn.Refused(err) && !errors.As(err, &certificate)
}
