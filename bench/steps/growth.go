package main

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
)

// quiet is longer than events are collected.
const quiet = 100 * time.Millisecond

// wire counts the bytes that a client writes.
type wire struct {
	net.Conn
	sent *atomic.Int64
}

// Write implements net.Conn.
func (w wire) Write(p []byte) (int, error) {
	w.sent.Add(int64(len(p)))
	return w.Conn.Write(p)
}

// open makes a client whose bytes are counted.
func open(addr string) (rdb *redis.Client, sent *atomic.Int64) {
	sent = new(atomic.Int64)
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 100, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return wire{conn, sent}, err
	}}), sent
}

// costs are those of steps, with their writes and events.
type costs struct{ bytes, commands, took []float64 }

// lengthy is an agent with a turn of 100 steps. It counts what the second and the hundredth send, and times ten steps
// after the second and ten before the hundredth.
type lengthy struct {
	sent        *atomic.Int64
	commands    *lab.Counter
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
	bytes, commands := l.sent.Load(), l.commands.Total()
	err := step(ctx, turn, n)
	time.Sleep(quiet)
	c.bytes, c.commands = append(c.bytes, float64(l.sent.Load()-bytes)), append(c.commands, float64(l.commands.Total()-commands))
	return err
}

// growth compares the hundredth step of each turn with its second. Medians drop what a renewal adds.
func growth(ctx context.Context, srv *lab.Server, report *lab.Report, turns int) error {
	rdb, sent := open(srv.Addr())
	sender := srv.Client()
	defer rdb.Close()
	defer sender.Close()
	var early, late costs
	if _, err := talk(ctx, rdb, sender, "long", lengthy{sent, lab.Count(rdb), &early, &late}, turns); err != nil {
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
