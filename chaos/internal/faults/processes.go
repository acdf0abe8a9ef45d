package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"turnstile/chaos/internal/world"
)

// processes are the faults of one process or of several.
var processes = []Kind{
	{"worker killed", 6, func(ctx context.Context, w *world.World, rng *rand.Rand) (string, error) {
		p := worker(w, rng)
		agents := agentsOf(w, p.PID())
		p.Signal(syscall.SIGKILL)
		return p.Name, gone(ctx, agents, max(w.TTL/2, 3*time.Second))
	}},
	{"guardian killed", 4, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return killOne(w.Programs.Worker, "guardian of", rng, func(pid int) bool { return !isSupervised(w, pid) })
	}},
	{"agent killed", 4, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return killOne(w.Programs.Agent, "agent", rng, func(pid int) bool { return pid != w.Model.PID() })
	}},
	{"model's server killed", 1, func(_ context.Context, w *world.World, _ *rand.Rand) (string, error) {
		return signal(w.Model, syscall.SIGKILL), nil
	}},
	{"gateway killed", 3, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return signal(gateway(w, rng), syscall.SIGKILL), nil
	}},
	{"deliverers killed", 2, func(_ context.Context, w *world.World, _ *rand.Rand) (string, error) {
		for _, g := range w.Gateways {
			g.Signal(syscall.SIGKILL)
		}
		return signal(w.Workers[0].Process, syscall.SIGKILL) + " and gateways", nil
	}},
	{"worker stopped past its lease", 3, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return stopped(worker(w, rng), between(rng, w.TTL+500*time.Millisecond, 2*w.TTL)), nil
	}},
	{"worker stopped briefly", 2, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return stopped(worker(w, rng), between(rng, 100*time.Millisecond, w.TTL/2)), nil
	}},
	{"gateway stopped", 2, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return stopped(gateway(w, rng), between(rng, time.Second, 4*time.Second)), nil
	}},
	{"agent stopped", 1, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		target, pid := pickOne(w.Programs.Agent, rng, func(pid int) bool { return pid != w.Model.PID() })
		if pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			time.Sleep(between(rng, time.Second, 3*time.Second))
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		return "agent " + target, nil
	}},
	{"worker drained", 4, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return signal(worker(w, rng), syscall.SIGTERM), nil
	}},
	{"worker restarted", 3, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return signal(worker(w, rng), syscall.SIGHUP), nil
	}},
	{"storm of SIGTERM", 1, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return storm(w, rng, syscall.SIGTERM), nil
	}},
	{"storm of SIGHUP", 1, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return storm(w, rng, syscall.SIGHUP), nil
	}},
	{"gateway drained", 2, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return signal(gateway(w, rng), syscall.SIGTERM), nil
	}},
}

func worker(w *world.World, rng *rand.Rand) *world.Process {
	return w.Workers[rng.IntN(len(w.Workers))].Process
}

func gateway(w *world.World, rng *rand.Rand) *world.Process {
	return w.Gateways[rng.IntN(len(w.Gateways))].Process
}

func signal(p *world.Process, sig syscall.Signal) string {
	p.Signal(sig)
	return p.Name
}

func stopped(p *world.Process, d time.Duration) string {
	pid := p.PID() // the stopped life is continued, whatever else happens to it
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	time.Sleep(d)
	_ = syscall.Kill(pid, syscall.SIGCONT)
	return fmt.Sprintf("%s for %s", p.Name, d.Round(time.Millisecond))
}

// storm sends all workers signals for a while, one after the other.
func storm(w *world.World, rng *rand.Rand, sig syscall.Signal) string {
	n := 3 + rng.IntN(8)
	for range n {
		worker(w, rng).Signal(sig)
		time.Sleep(between(rng, 10*time.Millisecond, 400*time.Millisecond))
	}
	return fmt.Sprintf("%d signals", n)
}

// agentsOf are the agents of a worker, which are its guardians' children.
func agentsOf(w *world.World, worker int) (pids []int) {
	for _, pid := range all(w.Programs.Agent) {
		if parent(parent(pid)) == worker {
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone waits until none of the processes is left. A process that outlives its worker is a finding.
func gone(ctx context.Context, pids []int, patience time.Duration) error {
	return world.Await(ctx, patience, func() error {
		for _, pid := range pids {
			if parent(pid) != 0 {
				return fmt.Errorf("%w: %d", errOutlived, pid)
			}
		}
		return nil
	})
}

var errOutlived = errors.New("agents outlived their worker")

// parent is a process's parent, 0 for an ended process.
func parent(pid int) (parent int) {
	stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, rest, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 && fields[0] != "Z" {
		parent, _ = strconv.Atoi(fields[1])
	}
	return parent
}

func isSupervised(w *world.World, pid int) bool {
	for _, wk := range w.Workers {
		if wk.PID() == pid {
			return true
		}
	}
	// A worker's life that ends, or one that has just begun: both are children of the harness.
	by := parent(pid)
	return by == 0 || by == os.Getpid()
}

func killOne(exe, what string, rng *rand.Rand, is func(pid int) bool) (string, error) {
	target, pid := pickOne(exe, rng, is)
	if pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return what + " " + target, nil
}

// pickOne waits a while for a process of a program, and picks one.
func pickOne(exe string, rng *rand.Rand, is func(pid int) bool) (target string, pid int) {
	for range 200 {
		found := slices.DeleteFunc(all(exe), func(pid int) bool { return !is(pid) })
		if len(found) > 0 {
			pid = found[rng.IntN(len(found))]
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(args, []byte{0}, []byte{' '})), pid
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "none", 0
}

// all are the processes of a program.
func all(exe string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if at, err := os.Readlink(link); err != nil || at != exe {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
