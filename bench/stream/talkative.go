package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// piece is about one token of a model.
const piece = " token"

// talker is an agent that talks until it is interrupted.
type talker struct {
	rate    int
	said    *atomic.Int64
	started *lab.Countdown
}

func (t talker) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	t.started.One()
	t.talk(ctx, turn.Emit)
	return agent.Result{}, context.Cause(ctx)
}

// talk emits pieces at the rate; after a late tick, all that are due at once.
func (t talker) talk(ctx context.Context, emit func(agent.Event)) {
	tick := time.NewTicker(time.Second / time.Duration(t.rate))
	defer tick.Stop()
	began := time.Now()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ; n < int(time.Since(began).Seconds()*float64(t.rate)); n++ {
			emit(agent.Event{Type: session.EventText, Text: piece})
			t.said.Add(1)
		}
	}
}

// alone is the processor time that the talking itself takes for each piece.
func (t talker) alone(ctx context.Context, turns int) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	began, err := lab.ProcessorTime()
	if err != nil {
		return 0, err
	}
	var all sync.WaitGroup
	for range turns {
		all.Go(func() { t.talk(ctx, func(agent.Event) {}) })
	}
	all.Wait()
	used, err := lab.ProcessorTime()
	return (used - began) / time.Duration(max(t.said.Swap(0), 1)), err
}

// talkative measures a worker with talking turns, from the start of the last one. Everything that
// the worker sends in that time counts, with checkpoints and renewals. The turns last longer.
func talkative(ctx context.Context, srv *lab.Server, report *lab.Report, lasts time.Duration) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	rdb, sender := srv.Client(), srv.Client()
	defer rdb.Close()
	defer sender.Close()
	sent := lab.Count(rdb)
	t := talker{*rate, new(atomic.Int64), lab.NewCountdown(*turns)}
	own, err := t.alone(ctx, *turns)
	if err != nil {
		return err
	}
	opts := lab.Production(*turns)
	opts.DrainTimeout = time.Nanosecond // at once
	w, err := lab.Work(ctx, rdb, t, opts)
	if err != nil {
		return err
	}
	defer lab.Stop(ctx, w)
	if err := (lab.Load{Sessions: *turns, Each: 1}).Fill(ctx, sender, "talk", "hello"); err != nil {
		return err
	}
	if err := t.started.Wait(ctx); err != nil {
		return err
	}
	if err := sender.ConfigResetStat(ctx).Err(); err != nil {
		return err
	}
	began, err := lab.ProcessorTime()
	if err != nil {
		return err
	}
	sent.Reset()
	t.said.Store(0)
	select {
	case <-time.After(lasts):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	pieces, commands := float64(t.said.Load()), sent.Commands()
	most, total := sent.Most(pieces), float64(sent.Total())
	used, err := lab.ProcessorTime()
	if err != nil {
		return err
	}
	bytes, err := lab.RedisReceived(ctx, sender)
	if err != nil {
		return err
	}
	redisTime, err := lab.RedisTime(ctx, sender, commands)
	if err != nil {
		return err
	}
	lab.Progress("%.0f pieces", pieces)
	report.Reach(fmt.Sprintf("%d turns with %d pieces/s each: commands per piece", *turns, *rate),
		total/pieces <= 0.1, "<= 0.1", "%.3f (%.0f pieces in %s)", total/pieces, pieces, lasts)
	report.Add("  most of them", "%s", most)
	report.Add(fmt.Sprintf("  bytes to Redis per piece of %d", len(piece)), "%.1f", bytes/pieces)
	report.Add("  Redis time per piece", "%.2f us", redisTime/pieces)
	report.Add("  worker's processor time per piece, and for the agents' own ticking", "%s, %s",
		(time.Duration(float64(used-began)/pieces) - own).Round(100*time.Nanosecond), own.Round(100*time.Nanosecond))
	return nil
}
