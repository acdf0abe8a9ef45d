package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent/echo"
)

// job is a worker of the echo agent that drains on SIGTERM.
type job struct {
	Addr  string
	Slots int
	TTL   time.Duration
	Drain time.Duration
}

// run is the child's part: its response to any word is how many sessions it serves.
func (j job) run(ctx context.Context) error {
	rdb := lab.Open(j.Addr, 0, "")
	defer rdb.Close()
	told, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	opts := lab.Production(j.Slots)
	opts.DrainTimeout, opts.LeaseTTL = j.Drain, j.TTL
	w, err := lab.Work(ctx, rdb, echo.New(), opts)
	if err != nil {
		return err
	}
	if err := lab.Say(w.Status().Running); err != nil {
		return err
	}
	go func() {
		_ = lab.Obey(func(string) any { return w.Status().Running }) // until the parent ends
		os.Exit(1)
	}()
	<-told.Done()
	lab.Stop(ctx, w)
	return nil
}

// start starts such a worker and waits until it takes work.
func (j job) start(ctx context.Context) (*lab.Child, error) {
	child, err := lab.Spawn(ctx, j)
	if err != nil {
		return nil, err
	}
	var running int
	if err := child.Read(&running); err != nil {
		child.End()
		return nil, err
	}
	return child, nil
}
