package neighbours

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/redistest"
)

// sentinelTTL is that of the workers here: the time until a dead one's sessions
// are taken up.
const sentinelTTL = 2 * time.Second

// patience is how long anything may take before it counts as broken.
const patience = time.Minute

// stage is one Redis and who uses it.
type stage struct {
	*testing.T
	ctx    context.Context
	url    string
	rdb    redis.UniversalClient
	client *actors.Client // this version's
}

func newStage(t *testing.T) *stage {
	t.Helper()
	rdb := redistest.New(t)
	return &stage{T: t, ctx: t.Context(), url: redistest.URL(t), rdb: rdb, client: actors.NewClient(rdb)}
}

// environ is that of every program.
func (s *stage) environ(settings ...string) []string {
	return append([]string{"REDIS_URL=" + s.url, "PATH=" + os.Getenv("PATH"), "HOME=" + s.TempDir()}, settings...)
}

// process is a program that runs.
type process struct {
	stage *stage
	cmd   *exec.Cmd
	name  string
	ended chan struct{}
	log   output
}

// worker starts a worker with the agent echo, and returns when it is at work.
func (s *stage) worker(v version, settings ...string) *process {
	s.Helper()
	settings = append([]string{
		"TURNSTILE_AGENT=echo", "TURNSTILE_LOG_FORMAT=json", "TURNSTILE_SWEEP_INTERVAL=2s",
		"TURNSTILE_SENTINEL_TTL=" + sentinelTTL.String(), "TURNSTILE_DRAIN_TIMEOUT=20ms",
	}, settings...)
	p := &process{stage: s, cmd: exec.Command(v.program("worker")), name: v.name + " worker", ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = s.environ(settings...), &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the exit code tells
	}()
	s.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.ended
		if s.Failed() {
			s.Logf("%s %d said:\n%s", p.name, p.cmd.Process.Pid, p.log.String())
		}
	})
	s.await("the start of the "+p.name, func() bool { return strings.Contains(p.log.String(), "worker started") })
	return p
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) } // an error: it has ended

// worker is the name by which Redis knows a worker.
func (p *process) worker() string {
	for line := range strings.Lines(p.log.String()) {
		var said struct{ Worker string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Worker != "" {
			return said.Worker
		}
	}
	return ""
}

// kill is the worker's sudden death.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// drain ends the worker as its supervisor does.
func (p *process) drain() {
	p.stage.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.stage.Fatalf("the %s does not end", p.name)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.stage.Errorf("exit code %d of the %s after SIGTERM", code, p.name)
	}
}

// said is what a program wrote, and its exit code.
type said struct {
	code     int
	out, err string
}

// enqueue runs a sender to its end.
func (s *stage) enqueue(v version, args ...string) said {
	s.Helper()
	return s.launch(v, "enqueue", "", nil, args...)()
}

// launch starts a program that ends by itself; line, if any, is called with each
// line of its stdout.
func (s *stage) launch(v version, program, stdin string, line func(string), args ...string) (finish func() said) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), patience)
	cmd := exec.CommandContext(ctx, v.program(program), args...)
	var out, stderr output
	out.line = line
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.environ(), strings.NewReader(stdin), &out, &stderr
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	s.Cleanup(func() {
		cancel()
		<-ended
	})
	return func() said {
		<-ended
		r := said{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
		if stdin == "" {
			s.Logf("%s %s %q: %+v", v.name, program, args, r)
		}
		return r
	}
}

// output is what a program writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	line func(string)
	rest []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.line != nil {
		o.rest = append(o.rest, p...)
		for {
			line, rest, whole := bytes.Cut(o.rest, []byte("\n"))
			if !whole {
				break
			}
			o.line(string(line))
			o.rest = rest
		}
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until cond holds: for another process' doing.
func (s *stage) await(what string, cond func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(3 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("waited in vain for %s", what)
		}
	}
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) info(key string) session.Info {
	s.Helper()
	info, err := s.client.Session(s.ctx, key)
	s.must(err)
	return info
}

// say submits a message whose id is given.
func (s *stage) say(key, id, text string, mode ...session.Mode) turnstile.Receipt {
	s.Helper()
	m := session.Message{ID: id, Text: text}
	if len(mode) > 0 {
		m.Mode = mode[0]
	}
	r, err := s.client.Submit(s.ctx, key, m)
	s.must(err)
	return r
}

// ends waits for a message's end.
func (s *stage) ends(key, id string) session.Outcome {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	o, err := s.client.Wait(ctx, key, id)
	if err != nil {
		s.Fatalf("message %s of %s: %v", id, key, err)
	}
	return o
}
