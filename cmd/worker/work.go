package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"

	"turnstile/internal/chat/terminal"
	"turnstile/internal/program/daemon"
	"turnstile/internal/program/service"
	"turnstile/pkg/worker"
)

// work runs a worker until ctx ends. It stops its parts in the reverse order of their start: first
// the worker, then HTTP, and last Redis.
func (p program) work(ctx context.Context, flags map[string]string, dev bool) (err error) {
	s, err := p.settings(flags, dev)
	if err = errors.Join(err, checkNamed(s)); err != nil {
		return err
	}
	hup := service.Restart
	if dev {
		hup = service.Shutdown // nothing would start it again
	}
	var logs atomic.Pointer[slog.Logger] // nil before there is one
	end, release := service.WatchSignals(ctx, hup, func() bool {
		err := p.check(flags)
		if log := logs.Load(); log != nil && err != nil {
			log.Error("SIGHUP is ignored: a restarted worker would not start", "error", err)
		}
		return err == nil
	})
	stops := []func(){release}
	defer func() {
		if !errors.Is(err, service.ErrAbandoned) {
			for _, stop := range slices.Backward(stops) {
				stop()
			}
		}
	}()
	var d *devMode
	if dev {
		if d, err = p.startDev(end.Requested, flags, &s); err != nil {
			return end.Unless(err)
		}
		stops = append(stops, d.stop)
	}
	screen, out := p.screen(d)
	log := daemon.NewLogger(logTo(screen, out), s.LogLevel, s.LogFormat)
	logs.Store(log)
	daemon.LimitMemory(log)
	a, named, err := newAgents(s, log)
	if err != nil {
		return err
	}
	running, err := service.Start(end, service.Config{
		Settings: s, Agent: a, Agents: named, Logger: log, Output: out, Ephemeral: d.ownsRedis(), AnyPort: d.anyPort(), API: d.api(s, log),
	})
	if err != nil {
		return end.Unless(err)
	}
	stops = append(stops, func() { running.Stop(end.Now) })
	d.begin(s, running.HTTP)
	return drainWhenRequested(end, running.Worker, d, screen, log)
}

// check returns why a worker would not start with the files as they are now.
func (p program) check(flags map[string]string) error {
	s, err := p.settings(flags, false)
	return errors.Join(err, checkNamed(s))
}

// drainWhenRequested ends the worker at a signal.
func drainWhenRequested(end service.Ending, w *worker.Worker, d *devMode, screen *terminal.Screen, log *slog.Logger) error {
	select {
	case <-end.Requested.Done():
	case <-d.left():
		end.Request(service.Shutdown) // so that Ctrl-C after Ctrl-D is the second
	case <-d.redisEnded():
		return d.lost()
	}
	d.ending(w.Status().Running, screen != nil)
	defer context.AfterFunc(end.Cut, func() { log.Warn("the drain is cut short") })()
	drained := end.Drain(w)
	defer showDrain(screen, w, end)()
	select {
	case <-drained:
		return end.Done()
	case <-end.Now.Done():
		if d.ownsRedis() {
			return fmt.Errorf("%w: its Redis ends with it, and nothing is kept", service.ErrAbandoned)
		}
		return fmt.Errorf("%w: other workers take its sessions after their leases expire", service.ErrAbandoned)
	case <-d.redisEnded():
		return d.lost()
	}
}

// screen is the terminal that the log is written to, or nil, and the output behind it.
func (p program) screen(d *devMode) (*terminal.Screen, *daemon.Output) {
	switch {
	case !terminal.IsTerminal(p.ErrOut):
		return nil, p.ErrOut
	case d != nil && terminal.IsTerminal(p.Out):
		return d.screen, p.Out // it knows the other output there
	}
	return terminal.NewScreen(p.ErrOut, terminal.StyleFor(true, p.Environ)), p.ErrOut
}

func logTo(screen *terminal.Screen, out *daemon.Output) io.Writer {
	if screen == nil {
		return out
	}
	return screen
}
