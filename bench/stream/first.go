package main

import (
	"context"
	"fmt"
	"time"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

const warmUp = 10 // samples that are dropped

// firstPiece measures from an agent's first emit to the follower's call, after the agent has
// thought for a while.
func firstPiece(ctx context.Context, srv *lab.Server, report *lab.Report, thinks time.Duration, samples int) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	rdb, sender := srv.Client(), srv.Client()
	defer rdb.Close()
	defer sender.Close()
	spoke := make(chan time.Time, 1)
	opts := lab.Production(1)
	opts.DrainTimeout = 0
	w, err := lab.Work(ctx, rdb, lab.Parked{Started: func(turn *agent.Turn) {
		time.Sleep(thinks)
		spoke <- time.Now()
		turn.Emit(agent.Event{Type: session.EventText, Text: piece})
	}}, opts)
	if err != nil {
		return err
	}
	defer lab.Stop(ctx, w)
	client := turnstile.NewClient(sender)
	took := make([]time.Duration, 0, warmUp+samples)
	for i := range warmUp + samples {
		one, err := follow(ctx, client, fmt.Sprintf("first:%d", i), spoke)
		if err != nil {
			return err
		}
		took = append(took, one)
	}
	took = took[warmUp:]
	lab.Progress("first piece after %s", thinks)
	const most = 10 * time.Millisecond
	report.Reach(fmt.Sprintf("first piece, %s after the agent's start: emit to the follower", thinks), lab.Median(took) <= most,
		fmt.Sprintf("p50 <= %s", most), "%s, longest %s", lab.Spread(took), lab.Short(lab.Quantile(took, 1)))
	return nil
}

// follow sends a message and follows it until its first piece, then stops it.
func follow(ctx context.Context, client *turnstile.Client, key string, spoke <-chan time.Time) (took time.Duration, err error) {
	if _, err := client.Session(key).Send(ctx, turnstile.Message{ID: "m", Text: "hello"}); err != nil {
		return 0, err
	}
	seen := make(chan time.Time, 1)
	followed := make(chan error, 1)
	go func() {
		var failed error
		for e, err := range client.Session(key).Events(ctx, turnstile.EventsOf("m")) {
			if failed = err; err == nil && e.Type == session.EventText {
				seen <- time.Now()
			}
		}
		followed <- failed
	}()
	began, err := lab.Next(ctx, spoke)
	if err != nil {
		return 0, err
	}
	at, err := lab.Next(ctx, seen)
	if err != nil {
		return 0, err
	}
	if _, err := client.Session(key).Stop(ctx); err != nil {
		return 0, err
	}
	return at.Sub(began), <-followed
}
