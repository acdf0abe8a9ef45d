// Package devredis starts a Redis without any set-up. It is not for production.
//
// Start is for `worker --dev`: a real redis-server where one is installed, else the embedded one.
// It stores nothing on disk and ends with the worker, however the worker dies. Launch starts a
// redis-server with the caller's arguments, for tests and benchmarks.
package devredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
)

// Kind is the program that serves.
type Kind string

// The kinds.
const (
	KindServer   Kind = "redis-server" // a child process
	KindEmbedded Kind = "embedded"     // miniredis, within this process
)

const (
	host        = "127.0.0.1"
	defaultPort = 6379
	portsTried  = 100
)

// ErrNoPort is returned when every port that was tried is taken.
var ErrNoPort = errors.New("no free port")

// Options are options of Start. The zero value is for --dev.
type Options struct {
	// Port is tried first, then the 99 after it. Defaults to 6379.
	Port int

	// Kind requests one of the two. Defaults to a redis-server if one is on PATH and new enough,
	// else the embedded one.
	Kind Kind

	// Fit checks a redis-server after its start. An error means that Turnstile cannot use it.
	// Optional.
	Fit func(ctx context.Context, url string) error
}

// Server is a running Redis.
type Server struct {
	kind Kind
	port int
	backend
}

// backend is a running server of either kind.
type backend interface {
	// Done is closed when the server ends.
	Done() <-chan struct{}
	stop()
}

// Start starts a Redis on loopback and returns when it serves; ctx bounds only that. Tell the
// user its URL: the port may differ from 6379.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Port == 0 {
		o.Port = defaultPort
	}
	kind := o.Kind
	if kind == "" {
		kind = KindEmbedded
		if _, err := exec.LookPath(string(KindServer)); err == nil {
			kind = KindServer
		}
	}
	s, err := o.start(ctx, kind)
	if o.Kind == "" && errors.Is(err, ErrUnfit) {
		return o.start(ctx, KindEmbedded)
	}
	return s, err
}

func (o Options) start(ctx context.Context, kind Kind) (*Server, error) {
	start := startProcess
	if kind == KindEmbedded {
		start = startEmbedded
	}
	for port := o.Port; port < o.Port+portsTried && port <= 65535; port++ {
		if !free(ctx, port) {
			continue
		}
		b, err := start(ctx, port)
		if errors.Is(err, ErrPortTaken) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("start a Redis for development: %w", err)
		}
		s := &Server{kind: kind, port: port, backend: b}
		if kind == KindServer && o.Fit != nil {
			if err := o.Fit(ctx, s.URL()); err != nil {
				s.Stop()
				return nil, fmt.Errorf("%w: %w", ErrUnfit, err)
			}
		}
		return s, nil
	}
	return nil, fmt.Errorf("start a Redis for development: %w from %d on", ErrNoPort, o.Port)
}

// free reports whether nothing listens on the port. On some systems we could listen on loopback
// although another server listens on all addresses, so free also tries to connect.
func free(ctx context.Context, port int) bool {
	if accepts(ctx, port) {
		return false
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func accepts(ctx context.Context, port int) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address(port))
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func address(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// URL returns the redis:// URL of the server's database 0.
func (s *Server) URL() string { return "redis://" + address(s.port) + "/0" }

// Port returns the port that the server listens on.
func (s *Server) Port() int { return s.port }

// Kind returns the program that serves.
func (s *Server) Kind() Kind { return s.kind }

// Stop ends the server and removes its files. It may be called twice.
func (s *Server) Stop() { s.stop() }
