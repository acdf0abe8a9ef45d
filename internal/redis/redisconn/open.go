package redisconn

import (
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
