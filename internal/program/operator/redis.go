package operator

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/program/config"
	"turnstile/internal/program/daemon"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
)

// responseTimeout is for ps and show, until the first response of Redis.
const responseTimeout = 5 * time.Second

// withAdmin calls f with a client of the sessions, for commands that only read.
func (p *Program) withAdmin(ctx context.Context, flags map[string]string, f func(*admin.Client, redis.UniversalClient) error) error {
	return p.withRedis(ctx, flags, func(rdb redis.UniversalClient) error { return f(admin.NewClient(rdb), rdb) })
}

// hasNoWorker reports whether no worker is running, as far as the Redis user may read that. refused says why nobody
// can know it, because Redis stores no heartbeat; "": it does.
func hasNoWorker(ctx context.Context, rdb redis.UniversalClient) (idle bool, refused string) {
	has, err := turnstile.NewClient(rdb).HasWorker(ctx)
	if redisconn.RefusesWrites(err) {
		refused = "whether a worker is running is unknown, heartbeats cannot be written: " + redisconn.Explain(err)
	}
	return err == nil && !has, refused
}

// withRedis calls f with a connection to a Redis that responds.
func (p *Program) withRedis(ctx context.Context, flags map[string]string, f func(redis.UniversalClient) error) error {
	s, err := config.LoadSender(p.Environ, config.Options{Overrides: flags})
	if err != nil {
		return err
	}
	daemon.NewLogger(p.Raw.Stderr, s.LogLevel, s.LogFormat)
	rdb, err := redisconn.Open(s.RedisURL)
	if err != nil {
		return err
	}
	defer rdb.Close()
	limited, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	if err = rdb.Ping(limited).Err(); err == nil || redisconn.RefusesWrites(err) { // with a full disk it refuses PING, too
		err = f(rdb)
	}
	if err != nil {
		return daemon.RedisError{Err: err}
	}
	return nil
}
