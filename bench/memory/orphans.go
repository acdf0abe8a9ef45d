package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/internal/protocol/rediskey"
)

// recoveryTTL is the sentinels' TTL of the workers that recover.
const recoveryTTL = 15 * time.Second

// orphaned kills a worker in the middle of n turns, and watches another one that recovers them.
func orphaned(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	owner, err := start(ctx, srv, job{Slots: n, Retention: time.Hour, TTL: recoveryTTL, Rate: *rate, Park: true}, lab.Load{Sessions: 1})
	if err != nil {
		return err
	}
	defer owner.end()
	if err := (lab.Load{Sessions: n, Each: 1}).Fill(ctx, owner.rdb, "orphan", "hello"); err != nil {
		return err
	}
	if err := lab.Until(ctx, "the start of all turns", 50*time.Millisecond, func() (bool, error) {
		s, err := owner.now()
		return s.Running == n, err
	}); err != nil {
		return err
	}
	w, err := startWatch(ctx, srv, n)
	if err != nil {
		return err
	}
	defer w.next.end()
	owner.child.Kill()
	killed := time.Now()
	lab.Progress("%d sessions are orphaned", n)
	if err := w.report(ctx, report, "orphans"); err != nil {
		return err
	}
	report.Add("  the first, the last was started again after", "%s, %s (TTL %s)", lab.Short(w.first.Sub(killed)), lab.Short(w.last.Sub(killed)), recoveryTTL)
	return nil
}

// overdue watches a worker that finds n sessions with delayed messages that are long overdue.
func overdue(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	w, err := startWatch(ctx, srv, n)
	if err != nil {
		return err
	}
	defer w.next.end()
	rdb := w.next.rdb
	client := turnstile.NewClient(rdb)
	if err := lab.Parallel(n, func(i int) error {
		_, err := client.Session(late(i)).Send(ctx, turnstile.Message{ID: "m", Text: "hello", Delay: time.Hour})
		return err
	}); err != nil {
		return err
	}
	// They were due a minute ago, as if no worker had run until now.
	if _, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		due := time.Now().Add(-time.Minute)
		for i := range n {
			k, task := rediskey.For(late(i)), rediskey.TaskID(late(i), "m")
			p.ZAddXX(ctx, k.Scheduled(), redis.Z{Score: float64(due.Unix()), Member: task})
			p.ZAddXX(ctx, rediskey.Due, redis.Z{Score: float64(due.UnixMilli()), Member: late(i)})
		}
		return nil
	}); err != nil {
		return err
	}
	lab.Progress("%d sessions are overdue", n)
	return w.report(ctx, report, "overdue sessions")
}

func late(i int) string { return fmt.Sprintf("late:%d", i) }

// watch follows a recovery.
type watch struct {
	next *process
	from state
	want int64

	now         state
	first, last time.Time
	tenth       time.Time // when a tenth was recovered; the pace is uneven before
	tenthAt     int64
	running     int
	live        float64
}

// startWatch starts the worker that recovers n sessions.
func startWatch(ctx context.Context, srv *lab.Server, n int) (*watch, error) {
	next, err := start(ctx, srv, job{Slots: 50, Retention: time.Hour, TTL: recoveryTTL, Rate: *rate}, lab.Load{Sessions: 100, Each: 1})
	if err != nil {
		return nil, err
	}
	before, err := next.afterGC()
	if err != nil {
		next.end()
		return nil, err
	}
	return &watch{next: next, from: before, want: int64(n)}, nil
}

// report waits for the recovery of all, and reports it.
func (w *watch) report(ctx context.Context, report *lab.Report, what string) error {
	if err := lab.Until(ctx, "the recovery of all", 100*time.Millisecond, w.look); err != nil {
		return err
	}
	report.Reach(fmt.Sprintf("%d %s at RECOVERY_RATE %.0f/s: pace", w.want, what, *rate), w.pace() <= 1.1**rate, fmt.Sprintf("<= %.0f/s", *rate), "%.0f/s", w.pace())
	report.Add("  agents at once", "%d of %d slots", w.running, 50)
	report.Add("  worker's heap and stacks: before, at most", "%.1f MiB, %.1f MiB", w.from.Live/kib/kib, w.live/kib/kib)
	report.Add("  worker's commands for each", "%.1f", float64(w.now.Commands-w.from.Commands)/float64(w.want))
	return nil
}

func (w *watch) look() (done bool, err error) {
	if w.now, err = w.next.now(); err != nil {
		return false, err
	}
	recovered := w.now.Ended - w.from.Ended
	at := time.Now()
	if recovered > 0 && w.first.IsZero() {
		w.first = at
	}
	if recovered >= w.want/10 && w.tenth.IsZero() {
		w.tenth, w.tenthAt = at, recovered
	}
	w.running, w.live = max(w.running, w.now.Running), max(w.live, w.now.Live)
	w.last = at
	return recovered >= w.want, nil
}

// pace is how many sessions were recovered per second.
func (w *watch) pace() float64 {
	return float64(w.want-w.tenthAt) / w.last.Sub(w.tenth).Seconds()
}
