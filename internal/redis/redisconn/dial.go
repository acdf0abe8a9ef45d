package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

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
