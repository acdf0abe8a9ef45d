package redisconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Option is an option of Open.
type Option func(*redis.UniversalOptions)

// WithPoolSize sets the most connections per server that a client keeps for ordinary commands.
// Defaults to 10 per CPU.
func WithPoolSize(n int) Option {
	return func(o *redis.UniversalOptions) { o.PoolSize = n }
}

// WithClientName sets the name that CLIENT LIST shows.
func WithClientName(name string) Option {
	return func(o *redis.UniversalOptions) { o.ClientName = name }
}

// Open makes a client for the Redis that the URL names. It does not connect: see Check. An error
// wraps ErrURL and never contains the password.
//
// Commands obey the deadline of their context. They are sent again up to three times when the
// connection breaks or the reply is lost. Package script repeats those of scripts, since it knows
// which attempts were sent.
func Open(url string, opts ...Option) (redis.UniversalClient, error) {
	t, err := read(url)
	if err != nil {
		return nil, err
	}
	return t.client(opts), nil
}

func (t target) client(opts []Option) redis.UniversalClient {
	o := &redis.UniversalOptions{
		Addrs:            t.addrs,
		DB:               t.db,
		Username:         t.user,
		Password:         t.password,
		SentinelUsername: t.sentinelUser,
		SentinelPassword: t.sentinelPass,
		MasterName:       t.master,

		ContextTimeoutEnabled: true,
		// MaxRetries dials again as well. With five dials for each, a refused connection would
		// take seconds to be reported.
		DialerRetries: 1,
		// Each of the two costs every new connection a command, and no server we know of needs
		// it.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		TLSConfig:                t.config,
		Dialer:                   resolving(redis.NewDialer(&redis.Options{TLSConfig: t.config, DialTimeout: dialTimeout})),
	}
	for _, opt := range opts {
		opt(o)
	}
	switch t.scheme {
	case schemeSentinel:
		return redis.NewFailoverClient(o.Failover())
	case schemeCluster:
		return redis.NewClusterClient(o.Cluster())
	}
	simple := o.Simple()
	if t.scheme == schemeSocket {
		simple.Network = "unix"
	}
	return redis.NewClient(simple)
}

// dialTimeout is below the 5 s that callers wait for Redis, so that they learn why it was not reached.
const dialTimeout = 4 * time.Second

// errUnresolved is the error of a dial during which the name server did not respond in time.
var errUnresolved = errors.New("the name server did not respond in time")

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// resolving marks dials that fail with errUnresolved. That is not a net.Error: go-redis would dial again until
// its caller's time is over, and return only that.
func resolving(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		var dns *net.DNSError
		if errors.As(err, &dns) && dns.Timeout() {
			return nil, fmt.Errorf("%w: %s", errUnresolved, err.Error())
		}
		return conn, err
	}
}

// LogTo sends the Redis client library's log, mostly about connections, to logger at level debug,
// for the whole process. Without it the library writes to stderr in another format.
func LogTo(logger *slog.Logger) { redis.SetLogger(slogger{logger}) }

type slogger struct{ *slog.Logger }

// Printf implements the library's interface.
func (l slogger) Printf(ctx context.Context, format string, args ...any) {
	if l.Enabled(ctx, slog.LevelDebug) {
		l.DebugContext(ctx, "redis client", "text", oneLine(fmt.Sprintf(format, args...)))
	}
}
