package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"turnstile/internal/config"
	"turnstile/internal/engine"
	"turnstile/internal/httpd"
	"turnstile/internal/metrics"
	"turnstile/internal/redisconn"
	"turnstile/internal/terminal"
	"turnstile/pkg/admin"
)

// errAbandoned is wrapped where the worker is left as it is, for the process to
// end: what it uses must not be taken from under it.
var errAbandoned = errors.New("ended at once")

// work runs a worker until it is told to end. Whatever was started is stopped in
// the opposite order: the worker first, HTTP behind it, Redis last.
func (p *program) work(ctx context.Context, flags map[string]string, dev bool) (err error) {
	s, err := p.settings(flags, dev)
	if err = errors.Join(err, checkNamed(s)); err != nil {
		return err
	}
	hup := engine.ReasonRestart
	if dev {
		hup = engine.ReasonShutdown // nobody would start it again
	}
	end, release := watchSignals(ctx, hup)
	stops := []func(){release}
	defer func() {
		if !errors.Is(err, errAbandoned) {
			for _, stop := range slices.Backward(stops) {
				stop()
			}
		}
	}()
	var t *trial
	if dev {
		if t, err = p.startTrial(end.asked, flags, &s); err != nil {
			return end.unlessAsked(err)
		}
		stops = append(stops, t.stop)
	}
	screen := p.screen(t)
	log := newLogger(p.logTo(screen), s)
	a, err := newAgent(s, log)
	if err != nil {
		return err
	}
	if closed(s) {
		log.Warn("asynqmon is closed: the agent's programs would reach it, too; set TURNSTILE_HTTP_TOKEN to open it")
	}
	rdb, err := connect(end.asked, s.RedisURL, t.quiet(log), redisconn.WithPoolSize(poolSize(s)), redisconn.WithClientName("turnstile-worker"))
	if err != nil {
		return end.unlessAsked(err)
	}
	stops = append(stops, func() { _ = rdb.Close() })
	m := metrics.New(admin.New(rdb, admin.Config{}))
	o := options(s, log)
	o.Ephemeral = t.ownsRedis()
	if s.HTTPAddr != "" {
		o.Observer = m.Observer()
	}
	w, err := engine.New(rdb, a, o)
	if err != nil {
		return err
	}
	var server *httpd.Server
	if s.HTTPAddr != "" {
		c, err := httpConfig(s, rdb, log)
		if err != nil {
			return err
		}
		tellOf(w, m, &c)
		if server, err = startHTTP(end.asked, c, t.anyPort()); err != nil {
			return end.unlessAsked(err)
		}
		stops = append(stops, func() { stopHTTP(end.now, server, log) })
	}
	if err := w.Start(end.asked); err != nil {
		w.Drain(end.asked, end.reason())
		return end.unlessAsked(redisError{err})
	}
	t.begin(s, server)
	return drainWhenAsked(end, w, t, screen, log)
}

// drainWhenAsked ends the worker when a signal says so.
func drainWhenAsked(end ending, w *engine.Worker, t *trial, screen *terminal.Screen, log *slog.Logger) error {
	select {
	case <-end.asked.Done():
	case <-t.left():
		end.ask(engine.ReasonShutdown) // so that Ctrl-C after Ctrl-D is the second
	case <-t.redisEnded():
		return t.lost()
	}
	t.ending(w.Running(), screen != nil)
	defer context.AfterFunc(end.cut, func() { log.Warn("the drain is cut short") })()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		w.Drain(end.cut, end.reason())
	}()
	defer showDrain(screen, w, end)()
	select {
	case <-drained:
		return end.done()
	case <-end.now.Done():
		if t.ownsRedis() {
			return fmt.Errorf("%w: its Redis ends with it, and nothing is kept", errAbandoned)
		}
		return fmt.Errorf("%w: its messages are taken up again when their sessions' sentinels run out", errAbandoned)
	case <-t.redisEnded():
		return t.lost()
	}
}

// screen is the terminal that the log is written on, or nil where it goes
// elsewhere.
func (p *program) screen(t *trial) *terminal.Screen {
	switch {
	case !terminal.IsTerminal(p.raw.stderr):
		return nil
	case t != nil && terminal.IsTerminal(p.raw.stdout):
		return t.screen // which also knows what else is written there
	}
	return terminal.NewScreen(p.raw.stderr, terminal.StyleFor(true, p.environ))
}

func (p *program) logTo(screen *terminal.Screen) io.Writer {
	if screen == nil {
		return p.raw.stderr
	}
	return screen
}

// poolSize leaves each turn a connection, up to what one Redis is glad of.
func poolSize(s config.Worker) int { return min(max(16, s.Concurrency+8), 128) }
