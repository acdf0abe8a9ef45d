package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"turnstile/bench/internal/lab"
)

// machine describes in a sentence or two the machine and the versions.
func machine(ctx context.Context) (string, error) {
	sync, err := syncTime()
	if err != nil {
		return "", err
	}
	with := []string{runtime.Version()}
	if out, err := exec.CommandContext(ctx, "redis-server", "--version").Output(); err == nil {
		with = append(with, "redis-server "+after(string(out), "v="))
	}
	if version, err := nodeVersion(ctx); err == nil {
		with = append(with, "Node.js "+version)
	}
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/hibiken/asynq", "github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go":
			with = append(with, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
		}
	}
	for _, name := range []string{"bullmq", "@restatedev/restate-server", "@restatedev/restate-sdk"} {
		var p struct{ Version string }
		text, err := os.ReadFile(filepath.Join(modules(), name, "package.json"))
		if err == nil && json.Unmarshal(text, &p) == nil {
			with = append(with, name+" "+p.Version)
		}
	}
	load := ""
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = ", load average before the run " + strings.Fields(string(text))[0]
	}
	return fmt.Sprintf("%s/%s, %d processors%s; a write of 300 bytes and its fsync take %s (median of %d). %s.",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), load, lab.Short(sync), syncs, strings.Join(with, ", ")), nil
}

// after is the word after a mark.
func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	word, _, _ := strings.Cut(rest, " ")
	return word
}

// syncs is how often the time of an fsync is taken.
const syncs = 100

// syncTime is how long a small write and its fsync take where servers keep their files.
func syncTime() (time.Duration, error) {
	f, err := os.CreateTemp("", "turnstile-peers-sync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	text := []byte(strings.Repeat("x", 300))
	var took []time.Duration
	for range syncs {
		start := time.Now()
		if _, err := f.Write(text); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	return lab.Median(took), nil
}
