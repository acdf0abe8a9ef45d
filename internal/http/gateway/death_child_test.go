package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/store"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
	"turnstile/test/actors"
)

// childVariable makes the test binary a gateway; its value is a job.
const childVariable = "TURNSTILE_TEST_CHILD"

// job configures a gateway that dies, or is stopped, at a step of its first stream.
type job struct {
	URL    string // of Redis
	Tokens string // a file
	Steps  string // a file that gets each step's name
	Step   string // "": at none
	Nth    int    // of the steps of that name, from 1
	Moment string // of the step: before, half (of a write), after
	Signal syscall.Signal
}

// run serves until stdin ends. It drains at a line of stdin.
func (j job) run() error {
	rdb, err := redisconn.Open(j.URL)
	if err != nil {
		return err
	}
	steps, err := os.OpenFile(j.Steps, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	tokens, err := gateway.LoadTokens(j.Tokens)
	if err != nil {
		return err
	}
	death := &deathAt{job: j, steps: steps, seen: map[string]int{}}
	rdb.AddHook(death)
	var g *gateway.Gateway
	g = gateway.New(gateway.Config{Tokens: tokens}, gateway.Deps{
		Client: turnstile.NewClient(rdb), Admin: admin.NewClient(rdb), Store: store.New(rdb), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Ping:    func(ctx context.Context) error { return rdb.Ping(ctx).Err() },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, g.OpenStreams()) }),
	})
	g.SetHeartbeat(20 * time.Millisecond)
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: g}
	go func() { _ = server.Serve(&mortalListener{Listener: l, death: death}) }()
	fmt.Printf("serving http://%s\n", l.Addr())
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err == nil {
		_ = g.Stop(context.Background())
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// deathAt sends its process a signal at one of a stream's steps.
type deathAt struct {
	job   job
	steps *os.File

	mu   sync.Mutex
	seen map[string]int
}

// around plays one step. Steps without a name do not count.
func (d *deathAt) around(name string, half, play func()) {
	if name == "" {
		play()
		return
	}
	d.mu.Lock()
	d.seen[name]++
	here := name == d.job.Step && d.seen[name] == d.job.Nth
	fmt.Fprintln(d.steps, name)
	d.mu.Unlock()
	if here && d.job.Moment == "before" {
		d.die()
	}
	if here && d.job.Moment == "half" {
		half()
		d.die()
	}
	play()
	if here && d.job.Moment == "after" {
		d.die()
	}
}

func (d *deathAt) die() {
	fmt.Fprintln(d.steps, reached)
	_ = syscall.Kill(os.Getpid(), d.job.Signal)
	if d.job.Signal == syscall.SIGKILL {
		select {} // the process is about to die
	}
}

// reached is the line of the steps' file which says that the process got its signal.
const reached = "reached"

func nothing() {}

func (d *deathAt) DialHook(next redis.DialHook) redis.DialHook { return next }
func (d *deathAt) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (d *deathAt) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		name := actors.ScriptOf(cmd)
		if name == "" && (cmd.Name() == "getdel" || cmd.Name() == "ping" || cmd.Name() == "xread") {
			name = cmd.Name()
		}
		d.around(name, nothing, func() { err = next(ctx, cmd) })
		return err
	}
}

// mortalListener turns the actions of its first connection into steps.
type mortalListener struct {
	net.Listener
	death *deathAt
	later bool
}

func (l *mortalListener) Accept() (conn net.Conn, err error) {
	if l.later {
		return l.Listener.Accept()
	}
	l.later = true
	if conn, err = l.Listener.Accept(); err != nil {
		return nil, err
	}
	l.death.around("accept", nothing, nothing)
	return &mortalConn{Conn: conn, death: l.death}, nil
}

type mortalConn struct {
	net.Conn
	death *deathAt
	later bool
}

// Read makes the arrival of the request a step.
func (c *mortalConn) Read(into []byte) (n int, err error) {
	n, err = c.Conn.Read(into)
	if !c.later && n > 0 {
		c.later = true
		c.death.around("request", nothing, nothing)
	}
	return n, err
}

func (c *mortalConn) Write(data []byte) (n int, err error) {
	half := func() { _, _ = c.Conn.Write(data[:len(data)/2]) }
	c.death.around("write "+nameOf(data), half, func() { n, err = c.Conn.Write(data) })
	return n, err
}

func (c *mortalConn) Close() (err error) {
	c.death.around("close", nothing, func() { err = c.Conn.Close() })
	return err
}

var typeOf = regexp.MustCompile(`"type":"(\w+)"`)

// nameOf names the content of a stream's write.
func nameOf(data []byte) string {
	_, text, _ := bytes.Cut(data, []byte("\r\n")) // after the chunk's length
	switch found := typeOf.FindSubmatch(data); {
	case bytes.HasPrefix(data, []byte("HTTP/")):
		return "header"
	case found != nil:
		if kind := string(found[1]); kind == "gap" || kind == "reset" {
			return kind
		}
		return "events" // how many are in one write depends on timing
	case bytes.HasPrefix(text, []byte(":")):
		return "heartbeat"
	case bytes.HasPrefix(text, []byte("retry:")):
		return "retry"
	}
	return "end"
}
