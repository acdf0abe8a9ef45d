package main

import (
	"context"
	"fmt"
	"time"

	"turnstile/bench/internal/lab"
)

// orphaned kills a worker in the middle of n turns, and watches another one that
// takes them over.
func orphaned(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	const ttl = 15 * time.Second
	owner, err := start(ctx, srv, job{Slots: n, Retention: time.Hour, TTL: ttl, Rate: *rate, Park: true}, lab.Load{Sessions: 1})
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
	next, err := start(ctx, srv, job{Slots: 50, Retention: time.Hour, TTL: ttl, Rate: *rate}, lab.Load{Sessions: 100, Each: 1})
	if err != nil {
		return err
	}
	defer next.end()
	before, err := next.settled()
	if err != nil {
		return err
	}
	owner.child.Kill()
	killed := time.Now()
	lab.Progress("%d sessions are orphaned", n)

	w := watch{next: next, from: before, want: int64(n)}
	if err := lab.Until(ctx, "the recovery of all", 100*time.Millisecond, w.look); err != nil {
		return err
	}
	report.Reach(fmt.Sprintf("%d orphans at RECOVERY_RATE %.0f/s: pace", n, *rate), w.pace() <= 1.1**rate, fmt.Sprintf("<= %.0f/s", *rate), "%.0f/s", w.pace())
	report.Add("  the first, the last was started again after", "%s, %s (TTL %s)", lab.Short(w.first.Sub(killed)), lab.Short(w.last.Sub(killed)), ttl)
	report.Add("  agents at once", "%d of %d slots", w.running, 50)
	report.Add("  worker's heap and stacks: before, at most", "%.1f MiB, %.1f MiB", before.Live/kib/kib, w.live/kib/kib)
	report.Add("  worker's commands for each", "%.1f", float64(w.now.Commands-before.Commands)/float64(n))
	return nil
}

// watch follows a recovery.
type watch struct {
	next *process
	from state
	want int64

	now         state
	first, last time.Time
	tenth       time.Time // when a tenth was recovered, ahead of which the pace is not even
	tenthAt     int64
	running     int
	live        float64
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

// pace is how many were recovered in a second.
func (w *watch) pace() float64 {
	return float64(w.want-w.tenthAt) / w.last.Sub(w.tenth).Seconds()
}
