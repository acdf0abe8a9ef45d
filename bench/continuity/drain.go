package main

import (
	"context"
	"fmt"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// handovers measures from the end of a drain's time, with turns still running, to the start of the
// last of them on another, idle worker. The agents emitted something, which goes with their turns,
// and end at once when they are interrupted.
func handovers(ctx context.Context, srv *lab.Server, report *lab.Report, rounds int) error {
	var first, last []time.Duration
	for range rounds {
		after, err := handover(ctx, srv, *turns)
		if err != nil {
			return err
		}
		first, last = append(first, after[0]), append(last, after[len(after)-1])
	}
	lab.Progress("%d drains", rounds)
	longest := lab.Quantile(last, 1)
	report.Reach(fmt.Sprintf("drain of %d running turns: timeout to the last one's start on another worker, longest", *turns),
		longest <= time.Second, "<= 1s", "%s (%d drains)", lab.Short(longest), rounds)
	report.Add("  median", "%s", lab.Short(lab.Median(last)))
	report.Add("  the first one's start, median", "%s", lab.Short(lab.Median(first)))
	return nil
}

// handover returns when the turns of one drain started again, after its timeout.
func handover(ctx context.Context, srv *lab.Server, n int) ([]time.Duration, error) {
	if err := srv.Clear(ctx); err != nil {
		return nil, err
	}
	sender, rdb, other := srv.Client(), srv.Client(), srv.Client()
	defer sender.Close()
	defer rdb.Close()
	defer other.Close()
	opts := lab.Production(n)
	opts.DrainTimeout = drainTakes
	running := lab.NewCountdown(n)
	owner, err := lab.Work(ctx, rdb, lab.Parked{Started: func(turn *agent.Turn) {
		turn.Emit(agent.Event{Type: session.EventText, Text: "I have begun."})
		running.One()
	}}, opts)
	if err != nil {
		return nil, err
	}
	defer lab.Stop(ctx, owner) // a second drain, without turns to wait for
	if err := (lab.Load{Sessions: n, Each: 1}).Fill(ctx, sender, "drain", "hello"); err != nil {
		return nil, err
	}
	if err := running.Wait(ctx); err != nil {
		return nil, err
	}
	opts.DrainTimeout = time.Nanosecond // at once
	started := make(chan time.Time, n)
	next, err := lab.Work(ctx, other, lab.Parked{Started: func(*agent.Turn) { started <- time.Now() }}, opts)
	if err != nil {
		return nil, err
	}
	defer lab.Stop(ctx, next)
	over := time.Now().Add(drainTakes)
	go lab.Stop(ctx, owner)
	after := make([]time.Duration, n)
	for i := range after {
		at, err := lab.Next(ctx, started)
		if err != nil {
			return nil, err
		}
		after[i] = at.Sub(over)
	}
	return after, nil
}
