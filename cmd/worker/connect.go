package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/config"
	"turnstile/internal/redisconn"
	"turnstile/pkg/admin"
)

// redisError is an error of a Redis client, in words that say what to do.
type redisError struct{ error }

func (e redisError) Error() string { return redisconn.Explain(e.error) }
func (e redisError) Unwrap() error { return e.error }

const (
	// patience is how long a Redis may take to come up: whatever starts the worker
	// often starts Redis just before. It is for the supervisor to try longer.
	patience = 5 * time.Second

	retryPause = 200 * time.Millisecond

	askTimeout = 5 * time.Second // for ps and show, until Redis has answered once
)

// connect answers a client of a Redis that is there and fit for use.
func connect(ctx context.Context, url string, log *slog.Logger, o ...redisconn.Option) (redis.UniversalClient, error) {
	rdb, err := redisconn.Open(url, o...)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	warnings, err := check(limited, rdb, log)
	if err != nil {
		_ = rdb.Close()
		return nil, redisError{err}
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

// ask calls f with a client of the sessions, for the commands that only look.
func (p *program) ask(ctx context.Context, flags map[string]string, f func(*admin.Client) error) error {
	s, err := config.LoadSender(p.environ, config.Options{Overrides: flags})
	if err != nil {
		return err
	}
	newLogger(p.raw.stderr, config.Worker{LogLevel: s.LogLevel, LogFormat: s.LogFormat})
	rdb, err := redisconn.Open(s.RedisURL)
	if err != nil {
		return err
	}
	defer rdb.Close()
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err = rdb.Ping(limited).Err(); err == nil {
		err = f(admin.New(rdb, admin.Config{}))
	}
	if err != nil {
		return redisError{err}
	}
	return nil
}
