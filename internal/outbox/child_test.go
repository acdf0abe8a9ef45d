package outbox_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/outbox"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/test/actors"
	"turnstile/test/redistest"
)

// childVariable makes the test binary a deliverer; its value is a job.
const childVariable = "TURNSTILE_TEST_CHILD"

// job configures a deliverer that dies at a step.
type job struct {
	URL          string // of Redis
	Destinations string // JSON
	Timeout      time.Duration
	Steps        string // a file that gets each step's name
	Step         int    // 0: it does not die
	Before       bool
}

func (j job) run() error {
	rdb, err := redisconn.Open(j.URL)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(j.Steps, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	all, err := outbox.ParseDestinations([]byte(j.Destinations))
	if err != nil {
		return err
	}
	d, err := outbox.New(rdb, outbox.Options{
		Destinations: func() *outbox.Destinations { return all }, Timeout: j.Timeout, Poll: 5 * time.Millisecond, RetryBackoff: time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	death := &deathAt{step: j.Step, before: j.Before, file: file}
	rdb.AddHook(death)
	d.WrapTransport(func(next http.RoundTripper) http.RoundTripper { return mortalTransport{death, next} })
	d.Start(context.Background())
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin) // the parent holds the other end
	d.Stop(context.Background())
	return err
}

// deathAt kills its process at one of a delivery's steps: before its request is sent, or after its
// answer arrived and before it is used. Steps are numbered from 1.
type deathAt struct {
	step   int
	before bool
	file   *os.File

	mu   sync.Mutex
	seen int
}

func (d *deathAt) DialHook(next redis.DialHook) redis.DialHook { return next }
func (d *deathAt) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (d *deathAt) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		name := actors.ScriptOf(cmd)
		if len(cmd.Args()) > 1 && cmd.Args()[1] == rediskey.Outbox {
			name = cmd.Name() + " outbox"
		}
		if name == "outbox_due" { // most find nothing
			err := next(ctx, cmd)
			if found, ok := cmd.(redistest.Reply); ok && err == nil && strings.Contains(fmt.Sprint(found.Val()), "TestDeath") {
				d.reach(name)
			}
			return err
		}
		return d.around(name, func() error { return next(ctx, cmd) })
	}
}

// around plays one step. Steps without a name do not count.
func (d *deathAt) around(name string, play func() error) error {
	if d.before {
		d.reach(name)
	}
	err := play()
	if !d.before {
		d.reach(name)
	}
	return err
}

func (d *deathAt) reach(name string) {
	if name == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen++
	fmt.Fprintln(d.file, name)
	if d.seen == d.step {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the process is about to die
	}
}

// mortalTransport makes each POST a step.
type mortalTransport struct {
	death *deathAt
	http.RoundTripper
}

func (m mortalTransport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	err = m.death.around("POST", func() error {
		resp, err = m.RoundTripper.RoundTrip(req)
		return err
	})
	return resp, err
}
