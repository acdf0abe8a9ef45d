package redistest

import "go.uber.org/goleak"

// Dialing is for goleak, in packages whose tests end servers: go-redis checks once a second for a
// server that is gone, and notices only then that its client was closed.
func Dialing() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}
