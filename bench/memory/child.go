package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
)

// workerName is the name of the worker's connections.
const workerName = "bench-worker"

// job is a worker that reports its memory.
type job struct {
	Addr      string
	Slots     int
	Retention time.Duration
	TTL       time.Duration
	Rate      float64
	Park      bool // turns never end
	Heap      string
}

// state is a worker's report of itself.
type state struct {
	Live       float64 // bytes of heap and stacks in use
	Stacks     float64 // bytes of it
	RSS        float64 // bytes, 0 if unknown
	Goroutines int
	Running    int     // sessions that it serves now
	Ended      int64   // turns
	Commands   int     // sent to Redis
	GCs        uint32  // collections so far
	Peak       float64 // bytes: the greatest RSS so far, 0 if unknown
}

// counted is the echo agent that counts its turns.
type counted struct {
	*echo.Agent
	park  bool
	ended *atomic.Int64
}

func (c counted) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	if c.park {
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	}
	defer c.ended.Add(1)
	return c.Agent.Run(ctx, turn)
}

func (j job) run(ctx context.Context) error {
	rdb := lab.Open(j.Addr, 0, workerName)
	defer rdb.Close()
	sent := lab.Count(rdb)
	a := counted{echo.New(), j.Park, new(atomic.Int64)}
	opts := lab.Production(j.Slots)
	opts.Keep.Results, opts.LeaseTTL, opts.RecoveryRate = j.Retention, j.TTL, j.Rate
	w, err := worker.New(rdb, a, opts)
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	if err := lab.Say("ready"); err != nil {
		return err
	}
	return lab.Obey(func(word string) any {
		if word == "collect" { // return garbage to the system
			runtime.GC()
			debug.FreeOSMemory()
			j.profile()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s := state{
			Live: float64(m.HeapInuse + m.StackInuse), Stacks: float64(m.StackInuse), Goroutines: runtime.NumGoroutine(), GCs: m.NumGC,
			Running: w.Status().Running, Ended: a.ended.Load(), Commands: sent.Total(),
		}
		s.RSS, s.Peak = resident()
		return s
	})
}

// profile writes a profile of the heap after the last collection.
func (j job) profile() {
	if j.Heap == "" {
		return
	}
	f, err := os.Create(j.Heap)
	if err == nil {
		err = pprof.WriteHeapProfile(f)
		_ = f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "memory: heap profile:", err)
	}
}

// resident reads the process's resident memory on Linux.
func resident() (now, peak float64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	field := func(line, name string, into *float64) {
		if text, ok := strings.CutPrefix(line, name); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 64)
			*into = kib * 1024
		}
	}
	for line := range strings.Lines(string(status)) {
		field(line, "VmRSS:", &now)
		field(line, "VmHWM:", &peak)
	}
	return now, peak
}
