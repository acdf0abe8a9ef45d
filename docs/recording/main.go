//go:build linux

// Command recording makes docs/recording.svg, the moving picture in README: it
// builds worker and enqueue, runs them on pseudo-terminals, and draws what they
// print at the times at which they print it. `make recording` calls it.
//
// The ports 6379 and 8080 must be free, as on the machine of somebody who tries
// Turnstile for the first time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	out := flag.String("o", "docs/recording.svg", "the `file` to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	bin, err := os.MkdirTemp("", "turnstile-recording")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", bin+string(filepath.Separator), "./cmd/worker", "./cmd/enqueue")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) }
	above, below := newPane("a worker", 15, clock), newPane("a sender", 19, clock)
	if err := film(ctx, environment(bin), above, below); err != nil {
		return err
	}
	return os.WriteFile(out, []byte(draw(clock()+rest, above, below)), 0o644)
}

// environment is a shell's of somebody who has the two programs on PATH and
// nothing set.
func environment(bin string) []string {
	environ := []string{"PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH"), "TERM=xterm-256color"}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch {
		case name == "PATH", name == "TERM", name == "NO_COLOR", name == "REDIS_URL", strings.HasPrefix(name, "TURNSTILE_"):
		default:
			environ = append(environ, variable)
		}
	}
	return environ
}

// film plays the scene: a worker in the pane above, which runs until the end, and
// one command after the other below.
func film(ctx context.Context, environ []string, above, below *pane) error {
	below.prompt()
	above.prompt()
	if err := above.enter(ctx, workerLine); err != nil {
		return err
	}
	worker, err := start(above, environ, workerLine)
	if err != nil {
		return err
	}
	defer worker.end()
	if err := worker.says(ctx, "> "); err != nil {
		return err
	}
	for _, usual := range []string{"redis://127.0.0.1:6379/0", "http://127.0.0.1:8080/"} {
		if !above.shows(usual) {
			return fmt.Errorf("the worker did not get %s: another program has the port", usual)
		}
	}
	for _, s := range scene {
		if err := pause(ctx, s.before); err != nil {
			return err
		}
		if err := below.enter(ctx, s.line); err != nil {
			return err
		}
		command, err := start(below, environ, s.line)
		if err != nil {
			return err
		}
		if err := command.wait(); err != nil {
			return fmt.Errorf("%s: %w", s.line, err)
		}
		below.prompt()
	}
	return errors.Join(above.problem(), below.problem())
}
