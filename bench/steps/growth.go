package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
)

// quiet is longer than events are collected.
const quiet = 100 * time.Millisecond

// sent counts the commands of a client that name a session, and the bytes of their arguments. What a worker does
// beside its turns names none.
type sent struct{ commands, bytes atomic.Int64 }

func (s *sent) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		size, named := 0, false
		for _, arg := range cmd.Args() {
			text := fmt.Sprint(arg)
			size, named = size+len(text), named || strings.Contains(text, "{session:")
		}
		if named {
			s.commands.Add(1)
			s.bytes.Add(int64(size))
		}
	}
}

// counted makes a client whose commands are counted.
func counted(srv *lab.Server) (rdb *redis.Client, s *sent) {
	rdb, s = srv.Client(), &sent{}
	rdb.AddHook(s)
	return rdb, s
}

// DialHook implements redis.Hook.
func (s *sent) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (s *sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.count(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (s *sent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.count(cmds...)
		return next(ctx, cmds)
	}
}

// costs are those of steps, with their writes and events.
type costs struct{ bytes, commands, took []float64 }

// lengthy is an agent with a turn of 100 steps. It counts what the second and the hundredth send, and times ten steps
// after the second and ten before the hundredth.
type lengthy struct {
	sent        *sent
	early, late *costs
}

// Run implements agent.Agent.
func (l lengthy) Run(ctx context.Context, turn *agent.Turn) (result agent.Result, err error) {
	for n := 1; n <= 100 && err == nil; n++ {
		c := l.early
		if n > 50 {
			c = l.late
		}
		if n == 2 || n == 100 {
			err = l.count(ctx, turn, n, c)
			continue
		}
		began := time.Now()
		err = step(ctx, turn, n)
		if n > 2 && n <= 12 || n >= 90 {
			c.took = append(c.took, float64(time.Since(began).Microseconds()))
		}
	}
	return agent.Result{Text: "done"}, err
}

func (l lengthy) count(ctx context.Context, turn *agent.Turn, n int, c *costs) error {
	time.Sleep(quiet)
	bytes, commands := l.sent.bytes.Load(), l.sent.commands.Load()
	err := step(ctx, turn, n)
	time.Sleep(quiet)
	c.bytes, c.commands = append(c.bytes, float64(l.sent.bytes.Load()-bytes)), append(c.commands, float64(l.sent.commands.Load()-commands))
	return err
}

// growth compares the hundredth step of each turn with its second. Medians drop what a renewal adds.
func growth(ctx context.Context, srv *lab.Server, report *lab.Report, turns int) error {
	rdb, sent := counted(srv)
	sender := srv.Client()
	defer rdb.Close()
	defer sender.Close()
	var early, late costs
	if _, err := talk(ctx, rdb, sender, "long", lengthy{sent, &early, &late}, turns); err != nil {
		return err
	}
	lab.Progress("%d turns of 100 steps", turns)
	const most = 1.1
	for _, figure := range []struct {
		name, show    string
		before, after []float64
	}{
		{"bytes to Redis", "%.0f", early.bytes, late.bytes},
		{"commands", "%.0f", early.commands, late.commands},
		{"time (steps 90 to 99 against 3 to 12)", "%.0f us", early.took, late.took},
	} {
		before, after := lab.Median(figure.before), lab.Median(figure.after)
		report.Reach("step 100 against step 2 of a turn, "+figure.name, after <= most*before, fmt.Sprintf("<= %.1f x", most),
			"%.2f x ("+figure.show+" : "+figure.show+")", after/before, after, before)
	}
	return nil
}
