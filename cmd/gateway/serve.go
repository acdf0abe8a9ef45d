package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/http/board"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/openai"
	"turnstile/internal/http/store"
	"turnstile/internal/outbox"
	"turnstile/internal/process/guardian"
	"turnstile/internal/program/config"
	"turnstile/internal/program/daemon"
	"turnstile/internal/program/httpd"
	"turnstile/internal/program/metrics"
	"turnstile/internal/program/trace"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/agreement"
	"turnstile/internal/protocol/rights"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
)

// connections is the most connections to Redis that a gateway has for commands. Waits and streams
// share a few others.
const connections = 16

// streams is how many event streams one token may have open. An idle one costs some memory and no request to
// Redis, one whose client does not read costs more.
const streams = 1000

// serve serves until ctx ends or a signal comes.
func serve(ctx context.Context, s config.Gateway, out *daemon.Output) error {
	guardian.Conceal() // in a container it may run next to agents, with a password in REDIS_URL
	log := daemon.NewLogger(out, s.LogLevel, s.LogFormat)
	daemon.LimitMemory(log)
	tokens, err := loadTokens(s.TokensFile)
	if err != nil {
		return err
	}
	destinations, err := openDestinations(s.DestinationsFile)
	if err != nil {
		return err
	}
	daemon.OutliveReaders()
	ctx, stop := signal.NotifyContext(ctx, daemon.Heeded(syscall.SIGTERM, os.Interrupt)...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	rdb, err := daemon.Connect(ctx, s.RedisURL, log, redisconn.WithPoolSize(connections), redisconn.WithClientName("turnstile-gateway"))
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer rdb.Close()
	err = rights.Check(ctx, rdb, rights.Gateway)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return daemon.RedisError{Err: err}
	}
	routes := cmp.Or(destinations, outbox.NoFile())
	_ = routes.Share(ctx, rdb) // KeepShared reports the error
	traces, err := trace.Start(ctx, trace.FromEnvironment(), "turnstile-gateway", "", log)
	if err != nil {
		return fmt.Errorf("%w %w", config.ErrInvalid, err)
	}
	var deliveries outbox.TraceFunc
	if traces != nil {
		deliveries = traces.Deliveries(rdb)
		defer func() { traces.Stop(context.WithoutCancel(ctx), log) }()
	}
	g, m, all := newGateway(s, tokens, routes, rdb, traces, log)
	all.Log(out.LeftOut)
	if !s.Open {
		g.Guard(ctx)
	}
	server, err := daemon.StartHTTP(ctx, httpd.Config{
		Addr: s.Addr, Setting: "TURNSTILE_GATEWAY_ADDR", API: g, Logger: log, LogBlocked: out.Blocked,
		Ping:     admin.NewClient(rdb).Ping,
		Draining: func() (httpd.Drain, bool) { return httpd.Drain{Reason: "shutdown", Running: m.Open()}, g.Draining() },
	}, false)
	if err != nil {
		return err
	}
	if s.Deliver {
		stop, err := daemon.StartDeliverer(ctx, rdb, destinations, all, deliveries, log)
		if err != nil {
			return err
		}
		defer stop(context.WithoutCancel(ctx))
	}
	if destinations != nil {
		g.WhileServing(destinations.Follow)
	}
	g.WhileServing(func(ctx context.Context, log *slog.Logger) { routes.KeepShared(ctx, rdb, log) })
	watch := agreement.Watch{Name: agreement.NewName(), Gateway: true, Settings: func() map[string]string { return config.Agreed(s) }, Redis: rdb, Logger: log}
	var watching sync.WaitGroup
	watching.Go(func() { watch.Run(ctx) })
	defer watching.Wait()
	defer reloadAtHangup(files{g, tokens, destinations}, log)()
	<-ctx.Done()
	g.Drain()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Drain)
	defer cancel()
	if err := errors.Join(server.Stop(limited), g.Stop(limited)); err != nil {
		log.Warn("requests were interrupted", "error", err)
	}
	return nil
}

func newGateway(s config.Gateway, tokens *gateway.Tokens, destinations *outbox.File, rdb redis.UniversalClient, traces *trace.Tracer, log *slog.Logger) (
	*gateway.Gateway, *metrics.Gateway, *metrics.Metrics,
) {
	operator := admin.NewClient(rdb, admin.Config{Limits: s.Limits()})
	m := metrics.New(operator)
	watched := m.Gateway()
	rdb.AddHook(m.Scripts())
	client := turnstile.NewClient(rdb, turnstile.ClientConfig{
		Limits: s.Limits(), RememberIDs: s.IdempotencyTTL,
		DefaultReplyTo: destinations.Default,
	})
	deps := gateway.Deps{
		Client: client, Admin: operator, Store: store.New(rdb), Ping: operator.Ping, Metrics: m.Handler(), Observer: watched, Logger: log,
		Destinations: destinations,
	}
	if traces != nil {
		deps.Trace = traces.Request
	}
	g := gateway.New(gateway.Config{
		Tokens: tokens, Hosts: s.Hosts, Origins: s.Origins, Rate: float64(s.Rate), Streams: streams, Limits: s.Limits(),
		AnyoneDecides: s.Approve == config.ApproveAnyone,
	}, deps)
	g.Mount("/board/", board.New(g, board.Deps{Client: client, Admin: operator, Asynqmon: s.AsynqmonURL, Logger: log}))
	openai.New(client, operator, protocol.NewBodies(rdb)).Mount(g)
	return g, watched, m
}

// loadTokens returns nil without a file.
func loadTokens(path string) (*gateway.Tokens, error) {
	if path == "" {
		return nil, nil
	}
	tokens, err := gateway.LoadTokens(path)
	if err != nil {
		return nil, invalid("TURNSTILE_GATEWAY_TOKENS_FILE", path, err)
	}
	return tokens, nil
}

// openDestinations returns nil without a file.
func openDestinations(path string) (*outbox.File, error) {
	if path == "" {
		return nil, nil
	}
	file, err := outbox.OpenFile(path)
	if err != nil {
		return nil, invalid("TURNSTILE_GATEWAY_DESTINATIONS_FILE", path, err)
	}
	return file, nil
}

// invalid is the error about a file with mistakes, one line each.
func invalid(setting, path string, err error) error {
	var list interface{ Unwrap() []error }
	if errors.As(err, &list) {
		err = errors.Join(list.Unwrap()...)
	}
	return fmt.Errorf("%w %s=%q: %w", config.ErrInvalid, setting, path, err)
}

// files are the files that SIGHUP reloads. Each may be nil.
type files struct {
	gateway      *gateway.Gateway
	tokens       *gateway.Tokens
	destinations *outbox.File
}

func (f files) reload(log *slog.Logger) {
	read := func(what string, err error) {
		if err != nil {
			log.Error("the file cannot be used; its earlier contents stay in force", "file", what, "error", err)
		} else {
			log.Info("the file was reloaded", "file", what)
		}
	}
	if f.tokens != nil {
		read("tokens", f.gateway.Reload())
	}
	if f.destinations != nil {
		read("destinations", f.destinations.Reload())
	}
	if f.tokens == nil && f.destinations == nil {
		log.Warn("there is no file to reload")
	}
}

// reloadAtHangup reloads the files at each SIGHUP. The returned function ends that.
func reloadAtHangup(f files, log *slog.Logger) (end func()) {
	hangups, ended, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			case <-hangups:
			}
			f.reload(log)
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(ended)
		<-done
	}
}
