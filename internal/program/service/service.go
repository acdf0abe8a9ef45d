// Package service runs a worker as a service: a worker.Worker with its settings, Redis client,
// log, HTTP server and signals. cmd/worker and package program use it.
package service

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/outbox"
	"turnstile/internal/process/guardian"
	"turnstile/internal/program/config"
	"turnstile/internal/program/daemon"
	"turnstile/internal/program/httpd"
	"turnstile/internal/program/metrics"
	"turnstile/internal/program/trace"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/worker"
)

// Config has the settings and parts of a Service.
type Config struct {
	Settings config.Worker
	Agent    agent.Agent // nil: there are only Agents
	Agents   []worker.NamedAgent
	Logger   *slog.Logger
	Output   *daemon.Output // where Logger writes

	Ephemeral bool // Redis ends with the process; its warnings are not logged
	AnyPort   bool // HTTP may use one of the ports after the set one

	// API serves the HTTP server's other paths. It gets the file of destinations (outbox.NoFile without
	// one), and calls its KeepShared. Optional.
	API func(redis.UniversalClient, *outbox.File) API
}

// API is a gateway in this process.
type API interface {
	http.Handler

	// Drain ends requests that a client may hold open for long.
	Drain()

	// Stop drains, and returns at the end of those requests. When ctx ends, it closes the rest.
	Stop(ctx context.Context) error
}

// Service is a worker that runs.
type Service struct {
	Worker *worker.Worker
	HTTP   *httpd.Server // nil without TURNSTILE_HTTP_ADDR

	stops []func(hurry context.Context)
}

// Start connects to Redis and starts the worker with its HTTP server. If an end is requested, Start
// fails with any error. After an error nothing runs.
func Start(end Ending, c Config) (_ *Service, err error) {
	ctx, s := end.Requested, &Service{}
	defer func() {
		if err != nil {
			s.Stop(ctx)
		}
	}()
	if Closed(c.Settings) {
		c.Logger.Warn("asynqmon is closed: the agent's programs could reach it, too; set TURNSTILE_HTTP_TOKEN to open it")
	}
	if err := guardian.CheckOOM(); err != nil && c.Settings.AnyRunsPrograms() {
		c.Logger.Warn("agents may be killed no sooner than the worker when memory runs out", "error", err)
	}
	var destinations *outbox.File
	if c.Settings.Deliver || c.API != nil && c.Settings.DestinationsFile != "" {
		if destinations, err = outbox.OpenFile(c.Settings.DestinationsFile); err != nil {
			return nil, fmt.Errorf("TURNSTILE_GATEWAY_DESTINATIONS_FILE: %w", err)
		}
	}
	rdb, _, err := daemon.Open(ctx, c.Settings.RedisURL, c.Logger, redisconn.WithPoolSize(PoolSize(c.Settings)), redisconn.WithClientName("turnstile-worker"))
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func(context.Context) { _ = rdb.Close() })
	m := metrics.New(admin.NewClient(rdb))
	o := WorkerConfig(c.Settings, c.Logger)
	o.Settings = func() map[string]string { return config.Agreed(c.Settings) }
	o.Ephemeral, o.Agents = c.Ephemeral, c.Agents
	if c.Settings.HTTPAddr != "" {
		o.Observer = m.Observer()
		rdb.AddHook(m.Scripts())
	}
	traces, err := trace.Start(ctx, trace.FromEnvironment(), "turnstile-worker", o.Name, c.Logger)
	if err != nil {
		return nil, fmt.Errorf("%w %w", config.ErrInvalid, err)
	}
	var deliveries outbox.TraceFunc
	if traces != nil {
		o.Tracer, deliveries = traces, traces.Deliveries(rdb)
		s.stops = append(s.stops, func(hurry context.Context) { traces.Stop(hurry, c.Logger) })
	}
	if s.Worker, err = worker.New(rdb, c.Agent, o); err != nil {
		return nil, err
	}
	if c.Settings.HTTPAddr != "" {
		m.Log(c.Output.LeftOut)
		h := HTTPConfig(c.Settings, rdb, c.Logger, c.Output)
		expose(s.Worker, end, m, &h)
		var api API
		if c.API != nil {
			routes := cmp.Or(destinations, outbox.NoFile())
			_ = routes.Share(ctx, rdb) // the API's KeepShared reports the error
			api = c.API(rdb, routes)
			h.API = api
		}
		if s.HTTP, err = daemon.StartHTTP(ctx, h, c.AnyPort); err != nil {
			return nil, err
		}
		s.stops = append(s.stops, func(hurry context.Context) {
			StopHTTP(hurry, s.HTTP, api, c.Logger)
		})
	}
	if err := s.Worker.Start(ctx); err != nil {
		return nil, daemon.RedisError{Err: err}
	}
	if c.Settings.Deliver {
		stop, err := daemon.StartDeliverer(ctx, rdb, destinations, m, deliveries, c.Logger)
		if err != nil {
			_ = s.Worker.Stop(ctx)
			return nil, err
		}
		s.stops = append(s.stops, stop)
	}
	if destinations != nil {
		s.stops = append(s.stops, follow(destinations, c.Logger))
	}
	return s, nil
}

// Stop ends the HTTP server, then the Redis client. Stop the worker first. After hurry's end it
// does not wait for requests in progress.
func (s *Service) Stop(hurry context.Context) {
	for _, stop := range slices.Backward(s.stops) {
		stop(hurry)
	}
	s.stops = nil
}

// PoolSize returns one connection for each turn and a few more, within the number that one Redis
// serves well.
func PoolSize(s config.Worker) int { return min(max(16, s.Concurrency+8), 128) }

// follow reloads a file whenever it changes, until the returned function is called.
func follow(file *outbox.File, log *slog.Logger) (stop func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() { file.Follow(ctx, log) })
	return func(context.Context) {
		cancel()
		over.Wait()
	}
}
