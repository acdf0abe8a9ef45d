// Command custom-agent is a worker with an agent of its own, written in Go: a to-do
// list for each conversation. The agent is in todo.go; this is all that it takes to
// run it. README.md tells how.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/engine"
	"turnstile/internal/protocol"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "custom-agent:", err)
		os.Exit(1)
	}
}

func run() error {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		url = "redis://localhost:6379/0"
	}
	redisOptions, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(redisOptions)
	defer rdb.Close()

	// The first SIGTERM or Ctrl-C drains; a second one ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer context.AfterFunc(ctx, stop)()

	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("no Redis at %s (set REDIS_URL): %w", redisOptions.Addr, err)
	}
	return engine.Run(ctx, rdb, todoAgent{pause: 30 * time.Millisecond}, engine.Options{
		Queue:        protocol.Config{Retention: 24 * time.Hour}, // how long results can be asked for
		DrainTimeout: 30 * time.Second,                           // what a turn that runs may still take
	})
}
