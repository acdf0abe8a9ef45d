package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"turnstile"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/receipt"
	"turnstile/pkg/agent"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
)

// shout is a Go program's own agent.
type shout struct{}

func (shout) Run(_ context.Context, turn agent.Turn, emit func(agent.Event)) (agent.Result, error) {
	reply := strings.ToUpper(turn.Text())
	emit(agent.Event{Type: agent.EventText, Text: reply})
	return agent.Result{Text: reply}, nil
}

// A program that is both a worker with its own agent and a sender.
func Example() {
	server, err := miniredis.Run() // a real program uses its Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{server.Addr()}})
	defer rdb.Close()

	w, err := worker.New(rdb, shout{}, worker.Options{
		Queue:  protocol.Config{Retention: time.Hour},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := w.Start(ctx); err != nil {
		panic(err)
	}
	defer w.Drain(ctx, worker.ReasonShutdown)

	client := actors.NewClient(rdb)
	for _, text := range []string{"good morning", "how are you?"} {
		receipt, err := receipt.Input(ctx, client.Session("web:42"), turnstile.Message{Text: text})
		if err != nil {
			panic(err)
		}
		outcome, err := client.Session("web:42").Wait(ctx, receipt.ID)
		if err != nil {
			panic(err)
		}
		fmt.Println(outcome.Status, outcome.Reply)
	}
	// Output:
	// done GOOD MORNING
	// done HOW ARE YOU?
}
