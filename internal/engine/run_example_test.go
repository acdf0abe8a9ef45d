package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/engine"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
)

// A program that is a worker until it is told to end. Its context would be that of
// signal.NotifyContext; here it ends when there is a reply.
func ExampleRun() {
	server, err := miniredis.Run() // a real program uses its Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		client := actors.NewClient(rdb)
		receipt, err := client.Submit(ctx, "web:42", session.Message{Text: "good morning"})
		if err != nil {
			panic(err)
		}
		outcome, err := client.Wait(ctx, "web:42", receipt.ID)
		if err != nil {
			panic(err)
		}
		fmt.Println(outcome.Status, outcome.Reply)
	}()

	err = engine.Run(ctx, rdb, shout{}, engine.Options{
		Queue:        protocol.Config{Retention: time.Hour},
		DrainTimeout: 30 * time.Second,
		Logger:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	// Output: done GOOD MORNING
}
