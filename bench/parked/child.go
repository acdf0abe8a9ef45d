package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
)

// job is a worker with one slot.
type job struct{ Addr string }

// arrival is a decision that a turn's agent got in a run, and when that run began.
type arrival struct {
	Session  string
	Began    int64 // ns
	Decision session.Decision
}

// state is a worker's report of itself.
type state struct {
	Live   float64   // bytes of heap and stacks in use
	Ended  int       // turns without a question
	Parked int       // turns that were parked
	Came   []arrival // since the last report
}

// asker is an agent that asks for a permission, and replies with the decision.
type asker struct {
	mu sync.Mutex
	state
}

// Run implements agent.Agent.
func (a *asker) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	began := time.Now().UnixNano()
	d, err := turn.Ask(ctx, agent.Question{Key: "pay", Name: "pay"})
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.Came = append(a.Came, arrival{turn.Session, began, d})
	}
	return agent.Result{Text: string(d)}, err
}

func (a *asker) ended(e worker.TurnEnd) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.Status == worker.StatusParked {
		a.Parked++
	}
}

// report returns the state, and begins another list of arrivals.
func (a *asker) report() state {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.state
	s.Live, a.Came = float64(m.HeapInuse+m.StackInuse), nil
	return s
}

func (j job) run(ctx context.Context) error {
	rdb := lab.Open(j.Addr, 0, "bench-worker")
	defer rdb.Close()
	a, opts := &asker{}, lab.Production(1)
	opts.ParkAfter, opts.AskTimeout, opts.Observer.TurnEnded = time.Nanosecond, 48*time.Hour, a.ended
	if _, err := lab.Work(ctx, rdb, a, opts); err != nil {
		return err
	}
	if err := lab.Say("ready"); err != nil {
		return err
	}
	return lab.Obey(func(word string) any {
		if word == "collect" {
			runtime.GC()
			debug.FreeOSMemory()
		}
		return a.report()
	})
}
