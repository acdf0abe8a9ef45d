package redistest

import "go.uber.org/goleak"

// Dialing is for goleak, in packages whose tests end servers: go-redis looks once a
// second for one that went away, and notices only then that its client was closed.
func Dialing() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}
