package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"turnstile/internal/program/httpd"
)

// PortsTried is how many ports StartHTTP tries.
const PortsTried = 100

// StartHTTP serves on c.Addr. If that port is taken and next is set, it tries the ports after it.
func StartHTTP(ctx context.Context, c httpd.Config, next bool) (*httpd.Server, error) {
	for tries := 1; ; tries++ {
		server, err := httpd.New(c)
		if err != nil {
			return nil, err
		}
		if err = server.Start(ctx); err == nil {
			c.Logger.Info("serving HTTP", "addr", server.Addr())
			return server, nil
		}
		_ = server.Stop(ctx) // it never served
		taken := errors.Is(err, syscall.EADDRINUSE)
		switch {
		case taken && next && tries < PortsTried:
			c.Addr = following(c.Addr)
		case taken:
			return nil, fmt.Errorf("%w: set %s to another port", err, cmp.Or(c.Setting, "TURNSTILE_HTTP_ADDR"))
		default:
			return nil, fmt.Errorf("%w: see %s", err, cmp.Or(c.Setting, "TURNSTILE_HTTP_ADDR"))
		}
	}
}

// following returns the address with the next port.
func following(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port) // the settings were validated
	return net.JoinHostPort(host, strconv.Itoa(n+1))
}
