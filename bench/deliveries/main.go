// Command deliveries measures how fast one deliverer posts stored replies to a receiver on loopback
// that verifies nothing, and how soon a reply reaches it. It starts its own redis-server.
//
// Deliverer, receiver and, for the second figure, the worker are in this one process.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/internal/outbox"
	"turnstile/internal/protocol/deliveries"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
)

var (
	sessions = flag.Int("sessions", 1000, "sessions with deliveries")
	each     = flag.Int("each", 20, "deliveries of each session")
	samples  = flag.Int("samples", 1000, "samples of the time from a reply to its delivery")
)

// toReach is the rate to reach, a second.
const toReach = 2000

func main() { lab.Main("deliveries", run) }

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	to, err := receive()
	if err != nil {
		return err
	}
	defer to.stop()
	for _, n := range []int{lab.Quick(*each, 5), 1} {
		load := lab.Load{Sessions: lab.Quick(*sessions, 200), Each: n}
		took, err := empty(ctx, srv, to, load)
		if err != nil {
			return err
		}
		rate := float64(load.Messages()) / took.Seconds()
		lab.Progress("%s: %.0f/s", load, rate)
		report.Reach(fmt.Sprintf("%s stored deliveries, posted", load), rate >= toReach && to.disorder == 0,
			fmt.Sprintf(">= %d/s, in order", toReach), "%.0f/s, %d out of order", rate, to.disorder)
	}
	late, err := soon(ctx, srv, to)
	if err != nil {
		return err
	}
	report.Add("Send to the delivery of its reply, nothing else runs", "%s", lab.Spread(late))
	return nil
}

// empty stores a load's replies, then measures how long one deliverer takes.
func empty(ctx context.Context, srv *lab.Server, to *receiver, load lab.Load) (time.Duration, error) {
	if err := srv.Clear(ctx); err != nil {
		return 0, err
	}
	if err := store(ctx, srv, to, load); err != nil {
		return 0, err
	}
	rdb := srv.Client()
	defer rdb.Close()
	names := make([]string, load.Sessions)
	for i := range names {
		names[i] = key(i)
	}
	if err := deliveries.IndexOutbox(ctx, rdb, time.Now().UnixMilli(), names...); err != nil {
		return 0, err
	}
	to.reset()
	d, err := outbox.New(rdb, options(to))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	d.Start(ctx)
	defer d.Stop(ctx)
	err = lab.Until(ctx, "the deliveries", 2*time.Millisecond, func() (bool, error) { return to.count() == load.Messages(), nil })
	return time.Since(began), err
}

// store has a worker reply to a load's messages while nobody delivers.
func store(ctx context.Context, srv *lab.Server, to *receiver, load lab.Load) error {
	rdb := srv.Client()
	defer rdb.Close()
	client := turnstile.NewClient(rdb)
	err := lab.Parallel(load.Messages(), func(i int) error {
		_, err := client.Session(key(i%load.Sessions)).Send(ctx, turnstile.Message{Text: "hello", ReplyTo: to.name})
		return err
	})
	if err != nil {
		return err
	}
	w, err := worker.New(rdb, echo.New(), lab.Production(20))
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer lab.Stop(ctx, w)
	return lab.Until(ctx, "the replies", 50*time.Millisecond, func() (bool, error) {
		ready, err := rdb.ZCard(ctx, "turnstile:ready").Result()
		return ready == 0 && w.Status().Running == 0, err
	})
}

// soon measures single messages, from Send to their delivery.
func soon(ctx context.Context, srv *lab.Server, to *receiver) ([]time.Duration, error) {
	if err := srv.Clear(ctx); err != nil {
		return nil, err
	}
	rdb, sender := srv.Client(), srv.Client()
	defer rdb.Close()
	defer sender.Close()
	to.reset()
	w, err := worker.New(rdb, echo.New(), lab.Production(10))
	if err != nil {
		return nil, err
	}
	if err := w.Start(ctx); err != nil {
		return nil, err
	}
	defer lab.Stop(ctx, w)
	d, err := outbox.New(rdb, options(to))
	if err != nil {
		return nil, err
	}
	d.Start(ctx)
	defer d.Stop(ctx)
	client := turnstile.NewClient(sender)
	var late []time.Duration
	for i := range lab.Quick(*samples, 200) {
		sent := time.Now()
		if _, err := client.Session(key(i%10)).Send(ctx, turnstile.Message{Text: "hello", ReplyTo: to.name}); err != nil {
			return nil, err
		}
		select {
		case at := <-to.came:
			late = append(late, at.Sub(sent))
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return late, nil
}

func key(n int) string { return fmt.Sprintf("deliveries:%d", n) }

// options are the defaults, without a log.
func options(to *receiver) outbox.Options {
	return outbox.Options{Destinations: func() *outbox.Destinations { return to.destinations }, Logger: slog.New(slog.DiscardHandler)}
}
