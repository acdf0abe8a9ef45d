package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/config"
	"turnstile/internal/httpd"
	"turnstile/internal/metrics"
	"turnstile/pkg/worker"
)

const (
	// httpStop is how long requests in progress may take after all else has ended.
	httpStop = 3 * time.Second

	// PortsTried is how many ports StartHTTP tries.
	PortsTried = 100
)

// HTTPConfig returns the HTTP server's configuration.
func HTTPConfig(s config.Worker, rdb redis.UniversalClient, log *slog.Logger) httpd.Config {
	return httpd.Config{
		Addr: s.HTTPAddr, Token: s.HTTPToken, Programs: s.RunsPrograms(), Write: s.DashboardWrite,
		RedisURL: s.RedisURL,
		Ping:     func(ctx context.Context) error { return rdb.Ping(ctx).Err() },
		Logger:   log,
	}
}

// expose serves a worker's metrics, readiness and health.
func expose(w *worker.Worker, end Ending, m *metrics.Metrics, c *httpd.Config) {
	m.Watch(w)
	c.Metrics, c.Draining, c.Healthy = m.Handler(), readiness(w, end), w.Health
}

// Closed reports whether asynqmon refuses every request: the agent's programs could reach it, and
// no token keeps them out.
func Closed(s config.Worker) bool {
	return s.HTTPAddr != "" && s.HTTPToken == "" && s.RunsPrograms()
}

// MakeToken sets a random token where asynqmon would be closed without one, and returns it, or ""
// where none is needed. It is for commands that show the token to a person.
func MakeToken(s *config.Worker) string {
	if !Closed(*s) {
		return ""
	}
	s.HTTPToken = rand.Text()
	return s.HTTPToken
}

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
	n, _ := strconv.Atoi(port) // both were checked with the settings
	return net.JoinHostPort(host, strconv.Itoa(n+1))
}

// StopHTTP lets requests in progress finish, for up to httpStop or until hurry ends. api may be nil.
func StopHTTP(hurry context.Context, server *httpd.Server, api API, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(hurry, httpStop)
	defer cancel()
	if api != nil {
		api.Drain()
	}
	err := server.Stop(ctx)
	if api != nil {
		err = errors.Join(err, api.Stop(ctx))
	}
	if err != nil {
		log.Debug("stopping HTTP", "error", err)
	}
}

// readiness returns the progress of a drain for /readyz.
func readiness(w *worker.Worker, end Ending) func() (httpd.Drain, bool) {
	return func() (httpd.Drain, bool) {
		s := w.Status()
		return httpd.Drain{Reason: string(end.Reason()), Running: s.Running, SecondsLeft: Seconds(s.Left)}, s.Draining
	}
}

// Seconds rounds up, so that 0 means that nothing is left.
func Seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
