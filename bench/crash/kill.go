package main

import (
	"context"
	"math/rand/v2"
	"os"
	"time"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/worker"
)

// job is the worker that is killed.
type job struct {
	Addr string
	DB   int
	TTL  time.Duration
}

func options(ttl time.Duration) worker.Config {
	opts := lab.Production(4)
	opts.DrainTimeout = time.Nanosecond // at once
	opts.LeaseTTL = ttl
	return opts
}

// run is the child's part: it reports that it is ready, and then each message that it starts.
func (j job) run(ctx context.Context) error {
	rdb := lab.Open(j.Addr, j.DB, "")
	defer rdb.Close()
	started := make(chan string, 1)
	tell := func(turn *agent.Turn) { started <- turn.Messages[0].ID }
	if _, err := lab.Work(ctx, rdb, lab.Parked{Started: tell}, options(j.TTL)); err != nil {
		return err
	}
	go func() {
		_ = lab.Obey(func(string) any { return nil }) // until the parent ends
		os.Exit(1)
	}()
	if err := lab.Say("ready"); err != nil {
		return err
	}
	for message := range started {
		if err := lab.Say(message); err != nil {
			return err
		}
	}
	return nil
}

// kill lets one worker start a message, kills it, and measures until another, waiting worker starts
// the message again.
func kill(ctx context.Context, srv *lab.Server, db int, key string, ttl time.Duration) (time.Duration, error) {
	rdb := lab.Open(srv.Addr(), db, "")
	defer rdb.Close()
	owner, err := lab.Spawn(ctx, job{srv.Addr(), db, ttl})
	if err != nil {
		return 0, err
	}
	defer owner.End()
	var said string
	if err := owner.Read(&said); err != nil { // ready
		return 0, err
	}
	client := turnstile.NewClient(rdb)
	if _, err := client.Session(key).Send(ctx, turnstile.Message{ID: "m", Text: "hello"}); err != nil {
		return 0, err
	}
	if err := owner.Read(&said); err != nil { // started
		return 0, err
	}

	again := make(chan time.Time, 1)
	tell := func(*agent.Turn) { again <- time.Now() }
	next, err := lab.Work(ctx, rdb, lab.Parked{Started: tell}, options(ttl))
	if err != nil {
		return 0, err
	}
	defer func() {
		_, _ = client.Session(key).Stop(ctx) // or the drain would requeue the message
		lab.Stop(ctx, next)
	}()
	time.Sleep(ttl/3 + rand.N(2*ttl/3))
	killed := time.Now()
	owner.Kill()
	select {
	case at := <-again:
		return at.Sub(killed), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
