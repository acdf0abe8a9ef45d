package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"turnstile"
	"turnstile/internal/chat/terminal"
	"turnstile/internal/program/config"
	"turnstile/internal/program/httpd"
	"turnstile/internal/program/service"
	"turnstile/internal/redis/devredis"
	"turnstile/internal/redis/redisconn"
)

// consoleSession is the session of the lines that the user types.
const consoleSession = "console"

// devMode has the additions of --dev to a worker: a Redis, a welcome, and the console. A nil
// devMode adds nothing.
type devMode struct {
	redis  *devredis.Server // nil: REDIS_URL names one
	screen *terminal.Screen
	style  terminal.Style
	in     io.Reader // nil: there is no console
	any    bool      // the user did not choose the dashboard's port
	token  string    // of the dashboard, if --dev made it

	drain time.Duration
	gone  chan struct{} // closed when the user ends the console
	done  sync.WaitGroup
	end   func() // the console's
}

// startDev starts the Redis. It writes the URL and the dashboard's token into the settings.
func (p program) startDev(ctx context.Context, flags map[string]string, s *config.Worker) (*devMode, error) {
	d := &devMode{
		style: terminal.StyleFor(terminal.IsTerminal(p.Raw.Stdout), p.Environ),
		any:   p.Given(flags, "TURNSTILE_HTTP_ADDR") == "",
		token: service.MakeToken(s),
		drain: s.DrainTimeout,
		gone:  make(chan struct{}),
		end:   func() {},
	}
	d.screen = terminal.NewScreen(p.Raw.Stdout, d.style)
	if terminal.IsTerminal(p.Raw.Stdout) && terminal.Listens(p.Stdin) {
		d.in = p.Stdin
	}
	if s.RedisURLSet {
		return d, nil
	}
	var err error
	if d.redis, err = service.StartRedis(ctx); err != nil {
		return nil, err
	}
	s.RedisURL = d.redis.URL()
	return d, nil
}

// begin prints the welcome, and starts the console.
func (d *devMode) begin(s config.Worker, server *httpd.Server) {
	if d == nil {
		return
	}
	d.screen.Styled(d.welcome(s, server))
	if d.in == nil {
		return
	}
	rdb, err := redisconn.Open(s.RedisURL, redisconn.WithPoolSize(4), redisconn.WithClientName("turnstile-console"))
	if err != nil {
		d.screen.Tell(terminal.Line{Text: err.Error(), Tone: terminal.Alert})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &terminal.Console{
		Client: turnstile.NewClient(rdb, clientConfig(s)), Session: consoleSession, In: d.in, Screen: d.screen, Ephemeral: d.ownsRedis(),
		Ended: func(err error) {
			if err != nil { // another program has the terminal now
				d.screen.Tell(terminal.Line{Text: "The console is closed, the worker continues."})
				return
			}
			close(d.gone)
		},
	}
	d.done.Go(func() { c.Run(ctx) })
	d.end = func() {
		cancel()
		_ = rdb.Close() // ends a read that waits for events
		d.done.Wait()
	}
}

// ending prints why the drain waits, unless a countdown does.
func (d *devMode) ending(running int, counted bool) {
	if d == nil {
		return
	}
	d.screen.Close()
	if running == 0 || counted {
		d.screen.Line("Ending.")
	} else {
		d.screen.Line(fmt.Sprintf("Ending when what runs has ended (%d), in %s at most. Ctrl-C again waits no longer.", running, d.drain))
	}
}

// stop ends the console and the Redis.
func (d *devMode) stop() {
	d.end()
	if d.redis != nil {
		d.redis.Stop()
	}
}

// left is closed when the user ends the console.
func (d *devMode) left() <-chan struct{} {
	if d == nil {
		return nil
	}
	return d.gone
}

// redisEnded is closed when --dev's Redis ends by itself.
func (d *devMode) redisEnded() <-chan struct{} {
	if !d.ownsRedis() {
		return nil
	}
	return d.redis.Done()
}

// lost cleans up after a Redis that ended.
func (d *devMode) lost() error {
	d.redis.Stop()
	return fmt.Errorf("%w: the Redis of --dev ended, and all messages are lost", service.ErrAbandoned)
}

// ownsRedis reports whether Redis, with everything in it, ends with this program.
func (d *devMode) ownsRedis() bool { return d != nil && d.redis != nil }

// anyPort reports whether the dashboard may use another port.
func (d *devMode) anyPort() bool { return d != nil && d.any }
