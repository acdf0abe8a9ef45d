package redistest

import "go.uber.org/goleak"

// Dialing is for goleak, in packages with tests that end servers. go-redis checks once a second for
// a missing server, and only then notices that its client was closed.
func Dialing() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}
