package outbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/outbox"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A deliverer is killed at every step of its deliveries: before each request, and after each answer.
// Another one continues: nothing is lost, the order is kept, and a repeated delivery has the same id and
// bytes and is marked as a possible duplicate. Without TURNSTILE_PROOF=true only one step of each name is
// tried.
func TestDeathAtEveryStep(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	steps := dieAt(t, 0, false)
	for _, name := range []string{"take", "POST", "ack"} {
		if !slices.Contains(steps, name) {
			t.Fatalf("only these steps were counted: %q", steps)
		}
	}
	t.Logf("%q", steps)
	for i, name := range steps {
		if !expect.Proof() && slices.Contains(steps[i+1:], name) {
			continue // the last of each name
		}
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s step %d %s", when, i+1, steps[i]), func(t *testing.T) {
				t.Parallel()
				dieAt(t, i+1, when == "before")
			})
		}
	}
}

// dieAt delivers three messages by a deliverer that dies at a step and by its heir, and returns the
// steps that were reached. The receiver refuses the second message once.
func dieAt(t *testing.T, step int, before bool) []string {
	t.Helper()
	r := newRig(t)
	refused := false
	v := r.receiver(func(g got) int {
		if g.message == "b" && !refused {
			refused = true
			return 503
		}
		return 200
	})
	r.answer(r.key(1), "bot", "a")
	r.due(r.key(1)) // the first is found in the index, the others are noticed
	j := job{
		URL: redistest.URL(t), Destinations: fmt.Sprintf(`[{"name": "bot", "url": %q, "secrets": [%q], "private": true}]`, v.url, secret),
		Timeout: 100 * time.Millisecond, Steps: filepath.Join(t.TempDir(), "steps"), Step: step, Before: before,
	}
	dead := startChild(t, j)
	r.answer(r.key(1), "bot", "b", "c")
	over := false
	expect.Soon(t, "the deliverer's death, or all to be delivered", func() bool {
		select {
		case <-dead:
			over = true
		default:
		}
		return over || r.stored(r.key(1)) == 0
	})
	if step > 0 {
		all := r.destinations(map[string]string{"bot": v.url})
		r.deliverer(func(o *outbox.Options) {
			o.Destinations, o.Timeout = func() *outbox.Destinations { return all }, j.Timeout
		})
		r.due(r.key(1)) // by the sweep
	}
	expect.Soon(t, "all to be delivered", func() bool { return r.stored(r.key(1)) == 0 })
	v.check()
	text, err := os.ReadFile(j.Steps)
	expect.OK(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// check checks the guarantees for receivers.
func (v *receiver) check() {
	v.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	first := map[string]got{}
	var order []string
	last := int64(0)
	for _, g := range v.posts {
		f, again := first[g.message]
		if !again {
			first[g.message] = g
			order = append(order, g.message)
		} else if g.id != f.id || g.body != f.body || g.sequence != f.sequence {
			v.Errorf("%+v was repeated as %+v", f, g)
		} else if !g.duplicate && g.attempt == f.attempt {
			v.Errorf("%s came twice and does not say so: %+v", g.message, g)
		}
		if g.sequence < last {
			v.Errorf("%s came after a later one", g.message)
		}
		last = g.sequence
	}
	expect.List(v.T, "what was delivered", order, "a", "b", "c")
}

// startChild starts a deliverer and waits until it listens or dies. The channel is closed when the
// process ends.
func startChild(t *testing.T, j job) <-chan struct{} {
	t.Helper()
	expect.NotQuick(t)
	text, err := json.Marshal(j)
	expect.OK(t, err)
	self, err := os.Executable()
	expect.OK(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	expect.OK(t, err)
	out, err := cmd.StdoutPipe()
	expect.OK(t, err)
	expect.OK(t, cmd.Start())
	_, _ = bufio.NewReader(out).ReadString('\n') // ready, or dead
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = in.Close()
		<-over
	})
	return over
}

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
