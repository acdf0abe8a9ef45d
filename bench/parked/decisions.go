package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/session"
)

// warmUp is how many samples are dropped.
const warmUp = 50

// patience is how long nothing may arrive before what has not arrived is lost.
const patience = 4 * lab.SweepEvery

// decisions are those that arrived.
type decisions struct {
	child *lab.Child
	came  map[string][]arrival // of each session
}

// receive reads the arrivals since the last call, and returns how many there are.
func (d *decisions) receive() (int, error) {
	var s state
	if err := d.child.Call("now", &s); err != nil {
		return 0, err
	}
	for _, r := range s.Came {
		d.came[r.Session] = append(d.came[r.Session], r)
	}
	return len(s.Came), nil
}

// await receives until each of n sessions has one, or nothing arrives any more. It returns when the last one came.
func (d *decisions) await(ctx context.Context, n int) (last time.Time, err error) {
	last = time.Now()
	for len(d.came) < n && time.Since(last) < patience {
		some, err := d.receive()
		if err != nil {
			return last, err
		}
		if some > 0 {
			last = time.Now()
		}
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return last, nil
}

// count returns how many of n decisions did not become their message's result, and how many arrived again.
func (d *decisions) count(ctx context.Context, client *turnstile.Client, n int) (lost, twice int64, err error) {
	var missing, again atomic.Int64
	err = lab.Parallel(n, func(i int) error {
		came, right := d.came[name(i)], string(given(i))
		again.Add(int64(max(len(came)-1, 0)))
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if len(came) == 0 || string(came[0].Decision) != right {
			missing.Add(1)
		} else if end, err := client.Session(name(i)).Wait(ctx, "m"); err != nil || end.Status != session.StatusDone || end.Reply != right {
			missing.Add(1)
		}
		return nil
	})
	return missing.Load(), again.Load(), err
}

// given is the decision on the i-th session's question.
func given(i int) session.Decision {
	if i%3 == 0 {
		return session.Deny
	}
	return session.Allow
}

// decide decides all questions: some one after the other, then the others from many senders, of which every tenth
// decides twice.
func decide(ctx context.Context, srv *lab.Server, report *lab.Report, n, samples int) error {
	rdb := srv.Client()
	defer rdb.Close()
	client := turnstile.NewClient(rdb)
	child, err := start(ctx, srv)
	if err != nil {
		return err
	}
	defer child.End()
	d := &decisions{child: child, came: map[string][]arrival{}}
	samples = min(samples+warmUp, n)
	asked := make([]int64, samples)
	for i := range samples {
		asked[i] = time.Now().UnixNano()
		if _, err := client.Session(name(i)).Decide(ctx, "1", given(i)); err != nil {
			return err
		}
		if _, err := client.Session(name(i)).Wait(ctx, "m"); err != nil {
			return err
		}
	}
	if _, err := d.receive(); err != nil {
		return err
	}
	var waits []time.Duration
	for i := warmUp; i < samples; i++ {
		for _, r := range d.came[name(i)] {
			waits = append(waits, time.Duration(r.Began-asked[i]))
		}
	}
	lab.Progress("%d decisions, one after the other", samples)
	report.Reach("a decision to the agent's start, idle worker", lab.Quantile(waits, 0.99) < 10*time.Millisecond, "p99 < 10 ms", "%s", lab.Spread(waits))

	began, again := time.Now(), atomic.Int64{}
	if err := lab.Parallel(n-samples, func(i int) error {
		i += samples
		chat := client.Session(name(i))
		if _, err := chat.Decide(ctx, "1", given(i)); err != nil || i%10 > 0 {
			return err
		}
		_, err := chat.Decide(ctx, "1", session.Always) // on another device
		if !errors.Is(err, session.ErrDecided) && !errors.Is(err, session.ErrNoQuestion) {
			return fmt.Errorf("a second decision on a question: %w", err)
		}
		again.Add(1)
		return nil
	}); err != nil {
		return err
	}
	last, err := d.await(ctx, n)
	if err != nil {
		return err
	}
	time.Sleep(lab.Quick(2*lab.SweepEvery, 0)) // what arrives twice may take a sweep
	if _, err := d.receive(); err != nil {
		return err
	}
	lost, twice, err := d.count(ctx, client, n)
	if err != nil {
		return err
	}
	report.Add("decisions at once, to a worker with one slot", "%.0f/s", float64(n-samples)/last.Sub(began).Seconds())
	report.Reach("decisions that are lost, arrive twice", lost+twice == 0, "0, 0", "%d, %d of %d; %d second ones were refused", lost, twice, n, again.Load())
	if lost+twice > 0 {
		return fmt.Errorf("of %d decisions %d are lost and %d arrived twice", n, lost, twice)
	}
	return nil
}
