package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent/acp"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
)

const kib = 1024

// job is a worker that keeps warm ACP agents and reports its own memory.
type job struct {
	Addr string
	Warm int
}

type memory struct{ Live, Stacks, RSS float64 } // bytes

func (j job) run(ctx context.Context) error {
	rdb := lab.Open(j.Addr, 0, "bench-warm")
	defer rdb.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	a, err := acp.New(acp.Config{Command: []string{self, "speak=acp"}})
	if err != nil {
		return err
	}
	opts := lab.Production(8)
	opts.WarmAgents, opts.WarmTTL, opts.DrainTimeout = j.Warm+16, time.Hour, 0
	w, err := worker.New(rdb, a, opts)
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer lab.Stop(ctx, w)
	if err := lab.Say("ready"); err != nil {
		return err
	}
	return lab.Obey(func(string) any {
		runtime.GC()
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return memory{float64(m.HeapInuse + m.StackInuse), float64(m.StackInuse), resident()}
	})
}

// resident is this process's resident memory on Linux, 0 elsewhere.
func resident() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kb); n == 1 {
			return kb * kib
		}
	}
	return 0
}

// keptWarm measures a worker's memory for its warm agents.
func keptWarm(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	child, err := lab.Spawn(ctx, job{Addr: srv.Addr(), Warm: n})
	if err != nil {
		return err
	}
	defer child.End()
	var ready string
	if err := child.Read(&ready); err != nil {
		return err
	}
	rdb := srv.Client()
	defer rdb.Close()
	client := turnstile.NewClient(rdb)
	sessions := func(prefix string, n int) error {
		return lab.Parallel(n, func(i int) error {
			key := fmt.Sprintf("%s:%d", prefix, i)
			receipt, err := client.Session(key).Send(ctx, turnstile.Message{Text: "hello"})
			if err != nil {
				return err
			}
			end, err := client.Session(key).Wait(ctx, receipt.ID)
			if err == nil && end.Status != session.StatusDone {
				err = fmt.Errorf("%s: %s", end.Status, end.Error)
			}
			return err
		})
	}
	var before, after memory
	if err := sessions("before", 16); err != nil { // one-time allocations do not count
		return err
	}
	if err := child.Call("memory", &before); err != nil {
		return err
	}
	if err := sessions("warm", n); err != nil {
		return err
	}
	if err := child.Call("memory", &after); err != nil {
		return err
	}
	each := (after.Live - before.Live) / float64(n)
	report.Reach(fmt.Sprintf("%d warm ACP sessions: the worker's own memory for each", n), each <= 100*kib, "<= 100 KiB", "%.1f KiB", each/kib)
	report.Add("  of it stacks", "%.1f KiB", (after.Stacks-before.Stacks)/float64(n)/kib)
	report.Add("  resident", "%.1f KiB", (after.RSS-before.RSS)/float64(n)/kib)
	return nil
}
