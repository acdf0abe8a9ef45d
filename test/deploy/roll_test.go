package deploy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// traffic sends one message after the other to some sessions until it is ended, and checks that each was done, once.
type traffic struct {
	*testing.T
	client *turnstile.Client
	log    string // has a line for each run of the agent, with the message's id
}

// The agent notes what it runs, and one whose text is the name of a file waits for it.
func newTraffic(t *testing.T) (f traffic, environ []string) {
	t.Helper()
	redistest.Real(t)
	f = traffic{t, turnstile.NewClient(redistest.New(t)), filepath.Join(t.TempDir(), "log")}
	return f, []string{
		"REDIS_URL=" + redistest.URL(t), "TURNSTILE_SENTINEL_TTL=2m", "TURNSTILE_AGENT=exec", // no lease ends on a slow machine
		`TURNSTILE_AGENT_COMMAND=sh -c 'echo $TURNSTILE_MESSAGE_ID >>` + f.log + `; read text; case $text in /*) until [ -e $text ]; do sleep 0.05; done; esac; echo done'`,
	}
}

func (f traffic) send(key, id, text string) {
	f.Helper()
	if _, err := f.client.Session(key).Send(f.Context(), turnstile.Message{ID: id, Text: text}); err != nil {
		f.Error(err)
	}
}

func (f traffic) done(key, id string) {
	f.Helper()
	o, err := f.client.Session(key).Wait(f.Context(), id)
	if err != nil || o.Status != session.StatusDone {
		f.Errorf("%s of %s: %s, %v", id, key, o.Status, err)
	}
}

// runs is how often each message ran.
func (f traffic) runs() map[string]int {
	text, _ := os.ReadFile(f.log)
	count := map[string]int{}
	for id := range strings.FieldsSeq(string(text)) {
		count[id]++
	}
	return count
}

// begin sends to some sessions. The returned function ends that.
func (f traffic) begin() (end func()) {
	ctx, cancel := context.WithCancel(f.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	last, gap := time.Now(), time.Duration(0)
	replied := func() {
		mu.Lock()
		defer mu.Unlock()
		gap, last = max(gap, time.Since(last)), time.Now()
	}
	for s := range 3 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key, id := fmt.Sprint("s", s), fmt.Sprintf("s%d-%d", s, i)
				f.send(key, id, "hello")
				f.done(key, id)
				replied()
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
		f.Logf("the longest time between two replies: %s", gap.Round(time.Millisecond))
		for id, n := range f.runs() {
			expect.Equal(f, "runs of "+id, n, 1)
		}
	}
}

func names(list []*container) (names []string) {
	for _, c := range list {
		names = append(names, c.Name)
	}
	return names
}

func each(*container) bool { return true }

// The old workers are stopped when the new ones are healthy, all at once. While they drain, the new ones work. Nothing runs twice,
// and there are as many as before.
func TestRollReplacesWorkers(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			f, environ := newTraffic(t)
			e := startEngine(t, environ...)
			expect.OK(t, e.scale(n))
			old := e.all(each)
			for _, c := range old {
				expect.Soon(t, "an old worker's health", func() bool { return e.healthy(c) })
			}
			end := f.begin()
			file := filepath.Join(t.TempDir(), "file")
			f.send("held", "held", file)
			expect.Soon(t, "the turn that is held", func() bool { return f.runs()["held"] == 1 })

			e.set(func() {
				e.image, e.least = "new", n
				e.stopping = func() {
					f.send("drain", "drain", "while the old ones drain")
					f.done("drain", "drain")
					expect.OK(t, os.WriteFile(file, nil, 0o600))
				}
			})
			out, err := e.roll().CombinedOutput()
			if want := fmt.Sprintf("roll: done, %d workers run\n", n); err != nil || !strings.HasSuffix(string(out), want) {
				t.Errorf("%v: %s", err, out)
			}
			f.done("held", "held")
			end()
			expect.Equal(t, "the old ones' containers", len(slices.DeleteFunc(e.all(each), func(c *container) bool { return !slices.Contains(old, c) })), 0)
			expect.Equal(t, "new ones", len(e.all(func(c *container) bool { return c.image == "new" && c.State.Status == "running" })), n)
			for _, c := range old {
				expect.Equal(t, "an old one's exit code", c.process.ExitCode(), 0)
			}
		})
	}
}

// Whatever happens to the new version, the old one runs on, and the new one is kept, stopped. The next roll clears up.
func TestRollLeavesAFailedVersion(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	for image, c := range map[string]struct {
		code int
		says string
	}{
		"ends":            {1, "roll: a new worker failed: /worker-[34] is "},
		"never healthy":   {1, "roll: a new worker failed: /worker-[34] is running and unhealthy, restarts: 0"},
		"without a check": {1, "roll: a new worker failed: /worker-[34] is running and without a health check, restarts: 0"},
		"new":             {130, "roll: interrupted; the new ones are stopped, 2 old ones run on."},
		"missing":         {1, "roll: docker compose up failed; no new worker runs, 2 old ones run on"},
	} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			f, environ := newTraffic(t)
			e := startEngine(t, environ...)
			expect.OK(t, e.scale(2))
			old := e.all(each)
			for _, c := range old {
				expect.Soon(t, "an old worker's health", func() bool { return e.healthy(c) })
			}
			end := f.begin()
			inspected := make(chan struct{}, 1)
			e.set(func() { e.image, e.least, e.inspected = image, 2, sync.OnceFunc(func() { inspected <- struct{}{} }) })
			p := program.Start(t, e.roll())
			if c.code == 130 {
				expect.Received(t, "an inspect", inspected)
				p.Signal(syscall.SIGINT)
			}
			expect.Equal(t, "exit code", p.ExitCode(), c.code)
			if out := p.Output.String(); !regexp.MustCompile(c.says).MatchString(out) {
				t.Errorf("it says\n%s", out)
			}
			expect.List(t, "what runs", names(e.all(func(c *container) bool { return c.State.Status == "running" })), names(old)...)
			failed := e.all(func(c *container) bool { return c.State.Status == "exited" && c.restart == "no" })
			if image != "missing" {
				expect.List(t, "what is kept", names(failed), "/worker-3", "/worker-4")
				for _, want := range []string{"docker logs 000000000003.", "docker rm 000000000003 000000000004"} {
					if !strings.Contains(p.Output.String(), want) {
						t.Errorf("it does not say %q", want)
					}
				}
			}

			e.set(func() { e.image = "new" })
			if out, err := e.roll().CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			end()
			list := e.all(each)
			expect.Equal(t, "workers", len(list), 2)
			for _, c := range list {
				expect.Equal(t, c.Name+"'s image", c.image+" "+c.State.Status, "new running")
			}
		})
	}
}

// Once the new ones work, Ctrl-C only leaves the old ones' containers, which drain. The next roll removes them.
func TestRollInterruptedInTheDrain(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	_, environ := newTraffic(t)
	e := startEngine(t, environ...)
	expect.OK(t, e.scale(1))
	stopping, interrupted := make(chan struct{}), make(chan struct{})
	e.set(func() { e.stopping = sync.OnceFunc(func() { stopping <- struct{}{}; <-interrupted }) })
	p := program.Start(t, e.roll())
	expect.Received(t, "the stop", stopping)
	p.Signal(syscall.SIGINT)
	close(interrupted)
	expect.Equal(t, "exit code", p.ExitCode(), 130)
	if out, want := p.Output.String(), "the new workers work, the old ones drain. When they have ended: docker rm 000000000001\n"; !strings.HasSuffix(out, want) {
		t.Errorf("it says\n%s", out)
	}
	out, err := e.roll().CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "roll: done, 1 workers run\n") {
		t.Errorf("%v: %s", err, out)
	}
	expect.List(t, "what is left", names(e.all(each)), "/worker-3")
}

// Where none runs, there are as many as the file says.
func TestRollStartsWorkers(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	_, environ := newTraffic(t)
	e := startEngine(t, environ...)
	out, err := e.roll().CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "roll: done, 2 workers run\n") {
		t.Errorf("%v: %s", err, out)
	}
}
