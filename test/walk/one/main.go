// Command one sends one message to a worker in the same process, and records which functions run:
// `make walk` builds it with -cover. DIR/message has the counters of the time in which the message
// is sent and run, DIR/idle those of a while without messages.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/coverage"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/engine"
	"turnstile/internal/protocol"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "one:", err)
		os.Exit(1)
	}
}

func run(url, dir string) error {
	ctx := context.Background()
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(options)
	defer rdb.Close()
	w, err := engine.New(rdb, echo.New(), engine.Options{
		Queue: protocol.Config{Retention: time.Hour}, Logger: slog.New(slog.DiscardHandler), SweepInterval: time.Hour,
	})
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer w.Drain(ctx, engine.ReasonShutdown)
	client := turnstile.NewClient(rdb)
	send := func(text string) error {
		r, err := client.Submit(ctx, "walk", session.Message{Text: text})
		if err != nil {
			return err
		}
		o, err := client.Wait(ctx, "walk", r.ID)
		if err == nil && o.Status != session.StatusDone {
			err = fmt.Errorf("it ended as %s: %s", o.Status, o.Error)
		}
		return err
	}
	// What a process does once is not part of a message's way.
	if err := send("sleep=200ms the first"); err != nil {
		return err
	}
	if err := counted(filepath.Join(dir, "idle"), func() error { time.Sleep(3 * time.Second); return nil }); err != nil {
		return err
	}
	return counted(filepath.Join(dir, "message"), func() error { return send("sleep=200ms hello") })
}

// counted writes the counters of f's run.
func counted(dir string, f func() error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	if err := coverage.WriteMetaDir(dir); err != nil {
		return err
	}
	return coverage.WriteCountersDir(dir)
}
