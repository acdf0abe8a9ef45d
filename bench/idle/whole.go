package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"turnstile/bench/internal/lab"
)

// sweeps is how many are measured; the median is printed.
const sweeps = 3

// whole measures what reads all n known sessions: a sweep, while no worker lives, and "worker ls".
func whole(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	c, err := lab.Sweeps(ctx, srv, n, sweeps)
	if err != nil {
		return err
	}
	report.Add(fmt.Sprintf("a sweep over %d idle sessions", n), "%s, %.2f us of Redis' time and %.2f commands for each",
		lab.Short(lab.Median(c.Took)), lab.Median(c.Redis), c.Commands)
	lab.Progress("%d sessions were swept", n)
	return list(ctx, srv, report, n)
}

// list measures "worker ls", the real program.
func list(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	dir, err := os.MkdirTemp("", "idle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	worker := filepath.Join(dir, "worker")
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", worker, "./cmd/worker").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	ls := exec.CommandContext(ctx, worker, "ls", "--redis", "redis://"+srv.Addr())
	var table lines
	ls.Stdout, ls.Stderr = &table, os.Stderr
	began := time.Now()
	if err := ls.Run(); err != nil {
		return fmt.Errorf("worker ls: %w", err)
	}
	took := time.Since(began)
	if int(table) < n {
		return fmt.Errorf("worker ls: %d lines, want one for each of %d sessions", table, n)
	}
	peak := ls.ProcessState.SysUsage().(*syscall.Rusage).Maxrss // KiB
	report.Add(fmt.Sprintf("worker ls with %d sessions", n), "%s, %d MiB at its peak", lab.Short(took), peak/1024)
	return nil
}

// lines counts lines.
type lines int

func (l *lines) Write(p []byte) (int, error) {
	*l += lines(bytes.Count(p, []byte{'\n'}))
	return len(p), nil
}
