// Package service is a worker as a service: its settings, Redis client, log, HTTP server
// and signals around an engine.Worker. cmd/worker and turnstile.RunWorker run one.
package service

import (
	"context"
	"log/slog"
	"slices"

	"turnstile/internal/config"
	"turnstile/internal/engine"
	"turnstile/internal/httpd"
	"turnstile/internal/metrics"
	"turnstile/internal/redisconn"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
)

// Config says what to run.
type Config struct {
	Settings config.Worker
	Agent    agent.Agent
	Logger   *slog.Logger

	Ephemeral bool // Redis ends with the process, and is not warned of
	AnyPort   bool // HTTP may be on one of the ports after the setting's
}

// Service is a worker that runs.
type Service struct {
	Worker *engine.Worker
	HTTP   *httpd.Server // nil: there is none

	stops []func(hurry context.Context)
}

// Start connects to Redis and starts the worker with its HTTP server. An end of ctx ends
// the start; the error may then be anything. After an error nothing runs.
func Start(ctx context.Context, c Config) (_ *Service, err error) {
	s := &Service{}
	defer func() {
		if err != nil {
			s.Stop(ctx)
		}
	}()
	if Closed(c.Settings) {
		c.Logger.Warn("asynqmon is closed: the agent's programs would reach it, too; set TURNSTILE_HTTP_TOKEN to open it")
	}
	warnings := c.Logger
	if c.Ephemeral {
		warnings = slog.New(slog.DiscardHandler) // such a Redis is meant to keep nothing
	}
	rdb, err := Connect(ctx, c.Settings.RedisURL, warnings, redisconn.WithPoolSize(PoolSize(c.Settings)), redisconn.WithClientName("turnstile-worker"))
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func(context.Context) { _ = rdb.Close() })
	m := metrics.New(admin.NewClient(rdb))
	o := Options(c.Settings, c.Logger)
	o.Ephemeral = c.Ephemeral
	if c.Settings.HTTPAddr != "" {
		o.Observer = m.Observer()
	}
	if s.Worker, err = engine.New(rdb, c.Agent, o); err != nil {
		return nil, err
	}
	if c.Settings.HTTPAddr != "" {
		h, err := HTTPConfig(c.Settings, rdb, c.Logger)
		if err != nil {
			return nil, err
		}
		tellOf(s.Worker, m, &h)
		if s.HTTP, err = StartHTTP(ctx, h, c.AnyPort); err != nil {
			return nil, err
		}
		s.stops = append(s.stops, func(hurry context.Context) { StopHTTP(hurry, s.HTTP, c.Logger) })
	}
	if err := s.Worker.Start(ctx); err != nil {
		s.Worker.Drain(ctx, engine.ReasonShutdown)
		return nil, RedisError{err}
	}
	return s, nil
}

// Stop ends what is around the worker, which was drained: HTTP first, Redis last. Requests
// under way are not waited for when hurry has ended.
func (s *Service) Stop(hurry context.Context) {
	for _, stop := range slices.Backward(s.stops) {
		stop(hurry)
	}
	s.stops = nil
}

// PoolSize leaves each turn a connection, up to what one Redis is glad of.
func PoolSize(s config.Worker) int { return min(max(16, s.Concurrency+8), 128) }
