package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/config"
	"turnstile/internal/engine"
	"turnstile/internal/httpd"
	"turnstile/internal/metrics"
	"turnstile/internal/redisconn"
)

const (
	// httpStop is how long requests under way may take when all else has ended.
	httpStop = 3 * time.Second

	portsTried = 100
)

// httpConfig is what the settings say about HTTP.
func httpConfig(s config.Worker, rdb redis.UniversalClient, log *slog.Logger) (httpd.Config, error) {
	conn, err := redisconn.ConnOpt(s.RedisURL)
	return httpd.Config{
		Addr: s.HTTPAddr, Token: s.HTTPToken, Programs: s.RunsPrograms(), Write: s.DashboardWrite,
		Redis:  conn,
		Ping:   func(ctx context.Context) error { return rdb.Ping(ctx).Err() },
		Logger: log,
	}, err
}

// tellOf has a worker tell of itself over HTTP.
func tellOf(w *engine.Worker, m *metrics.Metrics, c *httpd.Config) {
	m.Watch(w)
	c.Metrics, c.Draining, c.Healthy = m.Handler(), readiness(w), w.Healthy
}

// closed tells whether asynqmon answers nobody: the agent's programs would reach it
// as well, and there is no token that keeps them out.
func closed(s config.Worker) bool {
	return s.HTTPAddr != "" && s.HTTPToken == "" && s.RunsPrograms()
}

// makeToken gives asynqmon a token where it would be closed without one, for commands
// that show it to a person. It answers the token, or "" where none is needed.
func makeToken(s *config.Worker) string {
	if !closed(*s) {
		return ""
	}
	s.HTTPToken = rand.Text()
	return s.HTTPToken
}

// asynqmonURL is where a browser finds asynqmon. With a token, it logs in there.
func asynqmonURL(server *httpd.Server, token string) string {
	u := url.URL{Scheme: "http", Host: server.Addr(), Path: "/asynqmon"}
	if token != "" {
		u.User = url.UserPassword("turnstile", token)
	}
	return u.String()
}

// startHTTP serves on c.Addr, or with next on one of the ports after it should
// that be taken.
func startHTTP(ctx context.Context, c httpd.Config, next bool) (*httpd.Server, error) {
	for tries := 1; ; tries++ {
		server, err := httpd.New(c)
		if err != nil {
			return nil, err
		}
		if err = server.Start(ctx); err == nil {
			c.Logger.Info("serving HTTP", "addr", server.Addr())
			return server, nil
		}
		_ = server.Stop(ctx) // it has not served
		taken := errors.Is(err, syscall.EADDRINUSE)
		switch {
		case taken && next && tries < portsTried:
			c.Addr = following(c.Addr)
		case taken:
			return nil, fmt.Errorf("%w: set TURNSTILE_HTTP_ADDR to another port", err)
		default:
			return nil, fmt.Errorf("%w: see TURNSTILE_HTTP_ADDR", err)
		}
	}
}

// following is the address with the next port.
func following(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port) // both were checked with the settings
	return net.JoinHostPort(host, strconv.Itoa(n+1))
}

// stopHTTP lets requests under way end, but not if hurry has ended.
func stopHTTP(hurry context.Context, server *httpd.Server, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(hurry, httpStop)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		log.Debug("stopping HTTP", "error", err)
	}
}
