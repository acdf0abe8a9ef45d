package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
)

// result is what a day was like. Times are of the day.
type result struct {
	messages, lost int
	waits, calm    []time.Duration
	interrupted    int64
	pods, idle     float64
	peak           int
}

// fleet has the workers of a day.
type fleet struct {
	rdb     redis.UniversalClient
	agent   agent.Agent
	pods    []*pod
	mu      sync.Mutex
	leaving map[*pod]bool // those that drain
	ending  sync.WaitGroup
	failed  atomic.Pointer[error]
	drained context.Context // not before the end of all
}

// pod is a worker, or one that starts.
type pod struct {
	worker atomic.Pointer[worker.Worker]
	start  sync.WaitGroup
}

// scale starts or drains workers: the youngest ones, as a ReplicaSet does.
func (f *fleet) scale(want int, startsIn time.Duration) {
	for len(f.pods) < want {
		p := &pod{}
		p.start.Go(func() {
			time.Sleep(real(startsIn)) // of the image and the process
			c := lab.Production(*slots)
			c.DrainTimeout = real(*drain)
			w, err := lab.Work(f.drained, f.rdb, f.agent, c)
			if err != nil {
				f.failed.Store(&err)
				return
			}
			p.worker.Store(w)
		})
		f.pods = append(f.pods, p)
	}
	for len(f.pods) > want {
		last := f.pods[len(f.pods)-1]
		f.pods = f.pods[:len(f.pods)-1]
		f.mu.Lock()
		f.leaving[last] = true
		f.mu.Unlock()
		f.ending.Go(func() {
			last.start.Wait()
			if w := last.worker.Load(); w != nil {
				_ = w.Stop(f.drained)
			}
			f.mu.Lock()
			delete(f.leaving, last)
			f.mu.Unlock()
		})
	}
}

// busy returns the running turns, and the number of workers and their slots, with those that start or drain.
func (f *fleet) busy() (running, workers, of int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := append(slices.Collect(maps.Keys(f.leaving)), f.pods...)
	for _, p := range all {
		if w := p.worker.Load(); w != nil {
			running += w.Status().Running
		}
	}
	return running, len(all), len(all) * *slots
}

// live lives a part of the day, with a fixed number of workers, or with as many as the autoscaler wants if it is 0.
func live(ctx context.Context, srv *lab.Server, from, length time.Duration, fixed int) (result, error) {
	if err := srv.Clear(ctx); err != nil {
		return result{}, err
	}
	rdb := srv.Client()
	defer rdb.Close()
	var r result
	var mu sync.Mutex
	sent := map[string]time.Time{}
	at := map[string]time.Duration{}
	f := &fleet{rdb: rdb, leaving: map[*pod]bool{}, drained: context.WithoutCancel(ctx)}
	f.agent = agent.Func(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
		mu.Lock()
		began := sent[t.Session]
		if !began.IsZero() {
			wait := day(time.Since(began))
			r.waits = append(r.waits, wait)
			if when := at[t.Session]; when < burstAt || when > burstAt+burstFor+time.Hour {
				r.calm = append(r.calm, wait)
			}
			delete(sent, t.Session)
		}
		mu.Unlock()
		rng := rand.New(rand.NewPCG(7, uint64(len(t.Session))+hash(t.Session)))
		work := min(time.Duration(rng.ExpFloat64()*float64(*turn)), 12**turn)
		select {
		case <-time.After(real(work)):
			return agent.Result{Text: "done"}, nil
		case <-ctx.Done():
			mu.Lock()
			r.interrupted++
			mu.Unlock()
			return agent.Result{}, context.Cause(ctx)
		}
	})
	f.scale(max(fixed, 1), 0)
	stop, over := context.WithCancel(ctx)
	var scaling sync.WaitGroup
	scaling.Go(func() { r.pods, r.idle, r.peak = f.control(stop, fixed) })
	client, ends := turnstile.NewClient(rdb), make(chan error)
	arrivals(ctx, from, length, func(n int, when time.Duration) {
		key := fmt.Sprint("chat-", n)
		mu.Lock()
		sent[key], at[key] = time.Now(), when
		mu.Unlock()
		r.messages++
		go func() {
			chat := client.Session(key)
			receipt, err := chat.Send(ctx, turnstile.Message{Text: "hello"})
			if err == nil {
				var o session.Outcome
				if o, err = chat.Wait(ctx, receipt.ID); err == nil && o.Status != session.StatusDone {
					err = fmt.Errorf("%s: %s", key, o.Status)
				}
			}
			ends <- err
		}()
	})
	for range r.messages {
		if err, failed := lab.Next(ctx, ends); failed != nil {
			over()
			return r, failed
		} else if err != nil {
			lab.Progress("lost: %v", err)
			r.lost++
		}
	}
	over()
	scaling.Wait()
	f.scale(0, 0)
	f.ending.Wait()
	if err := f.failed.Load(); err != nil {
		return r, *err
	}
	return r, ctx.Err()
}

// control scales until ctx ends, and returns the workers on average, the share of idle slots, and the most workers.
func (f *fleet) control(ctx context.Context, fixed int) (pods, idle float64, peak int) {
	s := scaler{target: float64(*slots), least: 1, most: *most}
	a, began := admin.NewClient(f.rdb), time.Now()
	var free, all, rounds float64
	tick := time.NewTicker(real(syncPeriod))
	defer tick.Stop()
	for {
		running, workers, of := f.busy()
		free, all = free+float64(max(of-running, 0)), all+float64(of)
		pods, rounds, peak = pods+float64(workers), rounds+1, max(peak, workers)
		if load, err := a.Scale(ctx); err == nil && fixed == 0 {
			f.scale(s.decide(day(time.Since(began)), float64(running)+float64(load.Waiting), len(f.pods)), *starts)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return pods / rounds, free / max(all, 1), peak
		}
	}
}

// hash spreads the sessions' names.
func hash(s string) (h uint64) {
	for _, c := range []byte(s) {
		h = h*31 + uint64(c)
	}
	return h
}
