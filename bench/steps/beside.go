package main

import (
	"context"
	"fmt"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// stepsBeside is how many steps the compared turn has.
const stepsBeside = 20

// use is what turns of a kind have cost, each.
type use struct {
	took, processor time.Duration
	bytes, commands float64
	redis           float64 // us
}

// beside compares a turn of 20 steps with one that says its result and has none, in alternate rounds.
func beside(ctx context.Context, srv *lab.Server, report *lab.Report, rounds, turns int) error {
	kinds := []struct {
		name string
		a    agent.Agent
	}{
		{"plain", agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
			turn.Emit(agent.Event{Type: session.EventText, Text: "I act."})
			return agent.Result{}, nil
		})},
		{"steps", agent.Func(func(ctx context.Context, turn *agent.Turn) (result agent.Result, err error) {
			turn.Emit(agent.Event{Type: session.EventText, Text: "I act."})
			for n := 1; n <= stepsBeside && err == nil; n++ {
				err = step(ctx, turn, n)
			}
			return agent.Result{Text: "done"}, err
		})},
	}
	uses := map[string][]use{}
	for round := range rounds {
		for _, kind := range kinds {
			u, err := used(ctx, srv, fmt.Sprint(kind.name, round), kind.a, turns)
			if err != nil {
				return err
			}
			uses[kind.name] = append(uses[kind.name], u)
		}
	}
	lab.Progress("%d rounds of %d turns", rounds, turns)
	for _, figure := range []struct {
		name  string
		value func(use) float64
		show  string
	}{
		{"from Send to its result", func(u use) float64 { return float64(u.took.Microseconds()) / 1000 }, "%.2f ms"},
		{"commands", func(u use) float64 { return u.commands }, "%.1f"},
		{"bytes to Redis", func(u use) float64 { return u.bytes }, "%.0f"},
		{"Redis time", func(u use) float64 { return u.redis }, "%.0f us"},
		{"processor time of Redis and this process", func(u use) float64 { return float64(u.processor.Microseconds()) }, "%.0f us"},
	} {
		middle := func(kind string) float64 {
			var all []float64
			for _, u := range uses[kind] {
				all = append(all, figure.value(u))
			}
			return lab.Median(all)
		}
		plain, steps := middle("plain"), middle("steps")
		report.Add(fmt.Sprintf("a turn of %d steps, %s", stepsBeside, figure.name), figure.show+" ("+figure.show+" without steps, "+figure.show+" more a step)",
			steps, plain, (steps-plain)/stepsBeside)
	}
	return nil
}

// used measures turns of a kind, with their messages.
func used(ctx context.Context, srv *lab.Server, prefix string, a agent.Agent, turns int) (u use, err error) {
	rdb, sent := counted(srv)
	admin := srv.Client()
	defer rdb.Close()
	defer admin.Close()
	commands := lab.Count(rdb)
	if err := admin.ConfigResetStat(ctx).Err(); err != nil {
		return u, err
	}
	server, err := lab.RedisProcessor(ctx, admin)
	if err != nil {
		return u, err
	}
	own, err := lab.ProcessorTime()
	if err != nil {
		return u, err
	}
	took, err := talk(ctx, rdb, rdb, prefix, a, turns)
	if err != nil {
		return u, err
	}
	each := float64(turns)
	u.took = took / time.Duration(turns)
	ownAfter, err := lab.ProcessorTime()
	if err != nil {
		return u, err
	}
	serverAfter, err := lab.RedisProcessor(ctx, admin)
	if err != nil {
		return u, err
	}
	u.processor = (ownAfter - own + serverAfter - server) / time.Duration(turns)
	u.bytes, u.commands = float64(sent.bytes.Load())/each, float64(sent.commands.Load())/each
	u.redis, err = lab.RedisTime(ctx, admin, commands.Commands())
	u.redis /= each
	return u, err
}
