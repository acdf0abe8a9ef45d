package turnstile_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/engine"
	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// shout is an agent that a worker runs somewhere else.
type shout struct{}

func (shout) Run(_ context.Context, turn agent.Turn, _ func(agent.Event)) (agent.Result, error) {
	return agent.Result{Text: strings.ToUpper(turn.Text())}, nil
}

// send is the code of README and docs/library.md.
func send(ctx context.Context, rdb redis.UniversalClient) error {
	client := turnstile.NewClient(rdb) // rdb is a go-redis v9 client
	receipt, err := client.Submit(ctx, "web:42", session.Message{ID: "update-1001", Text: "hello"})
	if err != nil {
		return err // send it again with the same ID: it runs once
	}
	outcome, err := client.Wait(ctx, "web:42", receipt.ID)
	fmt.Println(outcome.Status, outcome.Reply)
	return err
}

// A program that sends a message and waits for the reply. A repeated message is run
// once.
func Example_sender() {
	ctx := context.Background()
	rdb, stop := startWorker(ctx)
	defer stop()
	for range 2 {
		if err := send(ctx, rdb); err != nil {
			panic(err)
		}
	}
	// Output:
	// done HELLO
	// done HELLO
}

// startWorker stands for the worker that a sender has somewhere else.
func startWorker(ctx context.Context) (rdb redis.UniversalClient, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	options := engine.Options{Queue: protocol.Config{Retention: time.Hour}, Logger: slog.New(slog.DiscardHandler)}
	w, err := engine.New(rdb, shout{}, options)
	if err != nil {
		panic(err)
	}
	if err := w.Start(ctx); err != nil {
		panic(err)
	}
	return rdb, func() {
		w.Drain(ctx, engine.ReasonShutdown)
		_ = rdb.Close()
		server.Close()
	}
}
