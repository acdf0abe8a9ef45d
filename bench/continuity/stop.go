package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
)

const (
	warmUp   = 20                   // samples that are dropped
	runsFor  = 5 * time.Millisecond // a turn, or up to orLonger more, until it is stopped
	orLonger = 10 * time.Millisecond
)

// stopping measures from the call of Client.Stop to the end of the agent's context, in a worker
// that also runs other turns.
func stopping(ctx context.Context, srv *lab.Server, report *lab.Report, beside, samples int) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	rdb, sender := srv.Client(), srv.Client()
	defer rdb.Close()
	defer sender.Close()
	started := make(chan struct{}, beside+1)
	interrupted := make(chan time.Time, beside+1)
	opts := lab.Production(beside + 1)
	opts.DrainTimeout = time.Nanosecond // at once
	w, err := lab.Work(ctx, rdb, lab.Parked{
		Started:     func(*agent.Turn) { started <- struct{}{} },
		Interrupted: func(*agent.Turn) { interrupted <- time.Now() },
	}, opts)
	if err != nil {
		return err
	}
	defer lab.Stop(ctx, w)
	if err := (lab.Load{Sessions: beside, Each: 1}).Fill(ctx, sender, "beside", "hello"); err != nil {
		return err
	}
	for range beside {
		if _, err := lab.Next(ctx, started); err != nil {
			return err
		}
	}
	client := turnstile.NewClient(sender)
	took := make([]time.Duration, 0, warmUp+samples)
	for i := range warmUp + samples {
		key := fmt.Sprintf("stop:%d", i)
		if _, err := client.Session(key).Send(ctx, turnstile.Message{Text: "hello"}); err != nil {
			return err
		}
		if _, err := lab.Next(ctx, started); err != nil {
			return err
		}
		time.Sleep(runsFor + rand.N(orLonger))
		sent := time.Now()
		if _, err := client.Session(key).Stop(ctx); err != nil {
			return err
		}
		at, err := lab.Next(ctx, interrupted)
		if err != nil {
			return err
		}
		took = append(took, at.Sub(sent))
		if err := lab.Until(ctx, "the end of the turn", time.Millisecond, func() (bool, error) { return w.Status().Running == beside, nil }); err != nil {
			return err
		}
	}
	took = took[warmUp:]
	lab.Progress("/stop beside %d turns", beside)
	const most = 20 * time.Millisecond
	report.Reach(fmt.Sprintf("/stop to the agent's interrupt, %d other turns running", beside), lab.Quantile(took, 0.99) <= most,
		fmt.Sprintf("p99 <= %s", most), "%s, longest %s", lab.Spread(took), lab.Short(lab.Quantile(took, 1)))
	return nil
}
