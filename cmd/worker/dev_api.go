package main

import (
	"context"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/http/board"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/openai"
	"turnstile/internal/http/store"
	"turnstile/internal/outbox"
	"turnstile/internal/program/config"
	"turnstile/internal/program/service"
	"turnstile/internal/protocol"
	"turnstile/pkg/admin"
)

// api makes the gateway of --dev, on the dashboard's address. It requires the dashboard's token, if
// there is one: the agent's programs can reach it too.
func (d *devMode) api(s config.Worker, log *slog.Logger) func(redis.UniversalClient, *outbox.File) service.API {
	if d == nil {
		return nil
	}
	return func(rdb redis.UniversalClient, destinations *outbox.File) service.API {
		c := gateway.Config{Limits: s.Limits()}
		if s.HTTPToken != "" {
			c.Tokens = gateway.OneToken("dev", s.HTTPToken)
		}
		senders := clientConfig(s)
		senders.DefaultReplyTo = destinations.Default
		client := turnstile.NewClient(rdb, senders)
		operator := admin.NewClient(rdb, admin.Config{Limits: s.Limits()})
		g := gateway.New(c, gateway.Deps{
			Client: client, Admin: operator, Store: store.New(rdb), Ping: operator.Ping, Destinations: destinations, Logger: log,
		})
		g.Mount("/board/", board.New(g, board.Deps{Client: client, Admin: operator, Asynqmon: "/asynqmon", Logger: log}))
		openai.New(client, operator, protocol.NewBodies(rdb)).Mount(g)
		g.WhileServing(func(ctx context.Context, log *slog.Logger) { destinations.KeepShared(ctx, rdb, log) })
		return g
	}
}

// clientConfig has the limits of this program's senders: the console and the gateway.
func clientConfig(s config.Worker) turnstile.ClientConfig {
	return turnstile.ClientConfig{Limits: s.Limits(), RememberIDs: s.IdempotencyTTL}
}
