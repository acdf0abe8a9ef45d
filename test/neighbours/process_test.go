package neighbours

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
	"turnstile/test/watched"
)

// sentinelTTL is the setting of the workers here: the time until a dead one's sessions are
// recovered on an idle machine.
const sentinelTTL = 2 * time.Second

// stage is one Redis and its users.
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

// environ is the environment of every program.
func (s *stage) environ(settings ...string) []string {
	return append([]string{"REDIS_URL=" + s.url}, settings...)
}

// process is a running worker.
type process struct {
	*program.Process
	stage *stage
	name  string
}

// worker starts a worker with the agent echo, and returns when it has started.
func (s *stage) worker(v version, settings ...string) *process {
	s.Helper()
	settings = append([]string{
		"TURNSTILE_AGENT=echo", "TURNSTILE_LOG_FORMAT=json", "TURNSTILE_SWEEP_INTERVAL=2s",
		"TURNSTILE_SENTINEL_TTL=" + expect.Lease(sentinelTTL).String(), "TURNSTILE_DRAIN_TIMEOUT=20ms",
	}, settings...)
	p := program.Start(s, program.Command(s, v.program("worker"), s.environ(settings...)))
	p.Output.Await(s, "worker started")
	return &process{p, s, v.name + " worker"}
}

// worker is the worker's name in Redis.
func (p *process) worker() string {
	for line := range strings.Lines(p.Output.String()) {
		var said struct{ Worker string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Worker != "" {
			return said.Worker
		}
	}
	return ""
}

// drain ends the worker as its supervisor does.
func (p *process) drain() {
	p.stage.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		p.stage.Errorf("exit code %d of the %s after SIGTERM", code, p.name)
	}
}

// said is a program's output, and its exit code.
type said struct {
	code     int
	out, err string
}

// enqueue runs a sender to its end.
func (s *stage) enqueue(v version, args ...string) said {
	s.Helper()
	return s.launch(v, "enqueue", "", nil, args...)()
}

// launch starts a program that ends by itself. line, if there is one, is called with each line of
// its stdout.
func (s *stage) launch(v version, name, stdin string, line func(string), args ...string) (finish func() said) {
	s.Helper()
	cmd := program.Command(s, v.program(name), s.environ(), args...)
	out, stderr := &lines{Output: watched.NewOutput(), see: line}, watched.NewOutput()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), out, stderr
	p := program.Start(s, cmd)
	return func() said {
		r := said{p.ExitCode(), out.String(), stderr.String()}
		if stdin == "" {
			s.Logf("%s %s %q: %+v", v.name, name, args, r)
		}
		return r
	}
}

// lines calls a function for each line of an output as it comes.
type lines struct {
	*watched.Output
	see  func(string)
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	if l.see != nil {
		l.rest = append(l.rest, p...)
		for {
			line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
			if !whole {
				break
			}
			l.see(string(line))
			l.rest = rest
		}
	}
	return l.Output.Write(p)
}

func (s *stage) info(key string) session.Info {
	s.Helper()
	info, err := s.client.Session(key).Info(s.ctx)
	expect.OK(s, err)
	return info
}

// say sends a message with an ID.
func (s *stage) say(key, id, text string, mode ...session.Mode) turnstile.Receipt {
	s.Helper()
	m := turnstile.Message{ID: id, Text: text}
	if len(mode) > 0 {
		m.Mode = mode[0]
	}
	r, err := s.client.Session(key).Send(s.ctx, m)
	expect.OK(s, err)
	return r
}

// ends waits for a message's end.
func (s *stage) ends(key, id string) session.Outcome {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, expect.Patience)
	defer cancel()
	o, err := s.client.Session(key).Wait(ctx, id)
	if err != nil {
		s.Fatalf("message %s of %s: %v", id, key, err)
	}
	return o
}
