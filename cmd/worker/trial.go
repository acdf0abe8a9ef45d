package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"turnstile"
	"turnstile/internal/config"
	"turnstile/internal/devredis"
	"turnstile/internal/httpd"
	"turnstile/internal/redisconn"
	"turnstile/internal/service"
	"turnstile/internal/terminal"
)

// consoleSession is the session of the lines that the user types.
const consoleSession = "console"

// trial is what --dev adds to a worker: a Redis, a welcome, and the console. A nil trial adds
// nothing.
type trial struct {
	redis  *devredis.Server // nil: REDIS_URL names one
	screen *terminal.Screen
	style  terminal.Style
	in     io.Reader // nil: there is no console
	any    bool      // the user has not chosen the dashboard's port
	token  string    // of the dashboard, if this trial made it

	drain time.Duration
	gone  chan struct{} // closed when the user has ended the console
	done  sync.WaitGroup
	end   func() // the console's
}

// startTrial starts the Redis. It writes the URL and the dashboard's token into the settings.
func (p *program) startTrial(ctx context.Context, flags map[string]string, s *config.Worker) (*trial, error) {
	t := &trial{
		style: terminal.StyleFor(terminal.IsTerminal(p.raw.stdout), p.environ),
		any:   p.given(flags, "TURNSTILE_HTTP_ADDR") == "",
		token: service.MakeToken(s),
		drain: s.DrainTimeout,
		gone:  make(chan struct{}),
		end:   func() {},
	}
	t.screen = terminal.NewScreen(p.raw.stdout, t.style)
	if terminal.IsTerminal(p.raw.stdout) && terminal.Listens(p.stdin) {
		t.in = p.stdin
	}
	if s.RedisURLSet {
		return t, nil
	}
	var err error
	if t.redis, err = devredis.Start(ctx, devredis.Options{}); err != nil {
		return nil, err
	}
	s.RedisURL = t.redis.URL()
	return t, nil
}

// begin prints the welcome, and starts the console.
func (t *trial) begin(s config.Worker, server *httpd.Server) {
	if t == nil {
		return
	}
	t.screen.Styled(t.welcome(s, server))
	if t.in == nil {
		return
	}
	rdb, err := redisconn.Open(s.RedisURL, redisconn.WithPoolSize(4), redisconn.WithClientName("turnstile-console"))
	if err != nil {
		t.screen.Tell(terminal.Line{Text: err.Error(), Tone: terminal.Alert})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &terminal.Console{
		Client: turnstile.NewClientWith(rdb, clientConfig(s)), Session: consoleSession, In: t.in, Screen: t.screen, Ephemeral: t.ownsRedis(),
		Ended: func(err error) {
			if err != nil { // another program has the terminal now
				t.screen.Tell(terminal.Line{Text: "The console is closed, the worker continues."})
				return
			}
			close(t.gone)
		},
	}
	t.done.Go(func() { c.Run(ctx) })
	t.end = func() {
		cancel()
		_ = rdb.Close() // ends a read that waits for events
		t.done.Wait()
	}
}

// ending prints what the drain waits for, unless a countdown does.
func (t *trial) ending(running int, counted bool) {
	if t == nil {
		return
	}
	t.screen.Close()
	if running == 0 || counted {
		t.screen.Line("Ending.")
	} else {
		t.screen.Line(fmt.Sprintf("Ending when what runs has ended (%d), in %s at most. Ctrl-C again waits no longer.", running, t.drain))
	}
}

// stop ends the console and the Redis.
func (t *trial) stop() {
	t.end()
	if t.redis != nil {
		t.redis.Stop()
	}
}

// left is closed when the user has ended the console.
func (t *trial) left() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.gone
}

// redisEnded is closed when the trial's Redis has ended by itself.
func (t *trial) redisEnded() <-chan struct{} {
	if !t.ownsRedis() {
		return nil
	}
	return t.redis.Done()
}

// lost cleans up after a Redis that has ended.
func (t *trial) lost() error {
	t.redis.Stop()
	return fmt.Errorf("%w: the Redis that --dev had started is gone, and with it all messages", service.ErrAbandoned)
}

// ownsRedis reports whether Redis, with everything in it, ends with this program.
func (t *trial) ownsRedis() bool { return t != nil && t.redis != nil }

// anyPort reports whether the dashboard may use another port.
func (t *trial) anyPort() bool { return t != nil && t.any }
