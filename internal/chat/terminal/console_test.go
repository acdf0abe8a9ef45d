package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

const waits = expect.Patience

// paper collects the console's output, and can be read meanwhile.
type paper struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func (p *paper) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
	return p.b.Write(text)
}

// await waits until the whole output is want.
func (p *paper) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(waits)
	for {
		p.mu.Lock()
		got, changed := p.b.String(), p.changed
		p.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	}
}

// talk starts a console. The user types into in.
func talk(t *testing.T, rdb redis.UniversalClient) (in *io.PipeWriter, out *paper, ended chan error) {
	t.Helper()
	r, in := io.Pipe()
	out = &paper{changed: make(chan struct{})}
	ended = make(chan error, 1)
	c := &Console{
		Client: actors.NewClient(rdb).Client, Session: "s", In: r, Screen: NewScreen(out, false),
		Ended: func(err error) { ended <- err },
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		_ = rdb.Close()
		_ = in.Close()
		<-done
	})
	return in, out, ended
}

func typed(t *testing.T, in io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(in, text); err != nil {
		t.Fatal(err)
	}
}

func startWorker(t *testing.T) *worker.Worker {
	t.Helper()
	w, err := worker.New(redistest.New(t), echo.New(), worker.Config{Logger: slog.New(slog.DiscardHandler), RetryBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	return w
}

func ownClient(t *testing.T) redis.UniversalClient {
	t.Helper()
	rdb, err := redisconn.Open(redistest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	return rdb
}

func TestConversation(t *testing.T) {
	t.Parallel()
	startWorker(t)
	in, out, ended := talk(t, ownClient(t))
	said := "> "
	for _, turn := range [][2]string{
		{"hello\n", "echo: hello\n> "},
		{"\n", "> "},
		{"  \n", "> "},
		{"tool=search stream=3 in pieces\n", "tool search ...\r\x1b[Ktool search (<0.1s)\necho: in pieces\n> "},
		{"//help\n", "echo: /help\n> "},
		{"fail=final it\n", "failed: echo: told to fail\n> "},
		{"/status\n", "Idle: nothing runs, nothing waits.\n1 dead letter; /resume reruns those that a /stop ended or that failed.\n> "},
	} {
		typed(t, in, turn[0])
		said += turn[1]
		out.await(t, said)
	}

	// A message that is typed during a turn waits in the queue. The end of the input does not end
	// running turns, and a last line without a line break counts.
	typed(t, in, "stream=2 tick=500ms first\n")
	out.awaitEnd(t, said, "echo:")
	typed(t, in, "second\nthird")
	_ = in.Close()
	if err := <-ended; err != nil {
		t.Errorf("Ctrl-D: %v", err)
	}
	out.awaitEnd(t, said, "echo: third\n> ")
	rest := strings.TrimPrefix(out.String(), said)
	for _, part := range []string{"waits in the queue, position 2\n", "waits in the queue, position 3\n", "echo:", " first\n", "echo: second\n"} {
		if !strings.Contains(rest, part) {
			t.Errorf("%q is not in %q", part, rest)
		}
	}
}

// awaitEnd waits until the output after before ends in end.
func (p *paper) awaitEnd(t *testing.T, before, end string) {
	t.Helper()
	deadline := time.After(waits)
	for {
		p.mu.Lock()
		got, changed := p.b.String(), p.changed
		p.mu.Unlock()
		if strings.HasSuffix(strings.TrimPrefix(got, before), end) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%q does not end in %q", got, end)
		}
	}
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// Messages that were steered into a turn, or collected, share its reply, which is shown once.
func TestOneTurnIsShownOnce(t *testing.T) {
	t.Parallel()
	startWorker(t)
	in, out, _ := talk(t, ownClient(t))
	typed(t, in, "tool=a:1s title=My_talk first\n")
	out.awaitEnd(t, "", "tool a ...")
	typed(t, in, "/steer second\n")
	out.awaitEnd(t, "", "steered: second\n> ")
	// Events are collected, so a tool's duration is not exact.
	shown := regexp.MustCompile(`\([0-9.]+s\)`).ReplaceAllString(out.String(), "(a while)")
	if want := "> tool a ...tool a ...\r\x1b[Kwaits in the queue, position 2\ntool a ...\r\x1b[Khanded to the running turn\n" +
		"tool a ...\r\x1b[Ktool a (a while)\ntitle: My talk\necho: first\n\nsteered: second\n> "; shown != want {
		t.Errorf("got  %q\nwant %q", shown, want)
	}

	typed(t, in, "/queue collect debounce:50ms\n")
	typed(t, in, "stream=2 tick=500ms third\n")
	out.awaitEnd(t, "", "echo:")
	typed(t, in, "fail=final fourth\nfifth\n")
	out.awaitEnd(t, "", "failed: echo: told to fail\n> ")
	if n := strings.Count(out.String(), "told to fail"); n != 1 {
		t.Errorf("the turn of two messages is shown %d times: %q", n, out)
	}
}

func TestRetriesAreShown(t *testing.T) {
	t.Parallel()
	startWorker(t)
	in, out, _ := talk(t, ownClient(t))
	typed(t, in, "fail=retry:1 again\n")
	out.awaitEnd(t, "", "echo: again\n> ")
	if !strings.Contains(out.String(), "> attempt 1 failed: echo: told to fail at attempt 1 of 1; again in ") {
		t.Errorf("%q", out)
	}
}

// The console shows that a worker's end interrupted a turn, and the next worker's reply.
func TestInterruptionIsShown(t *testing.T) {
	t.Parallel()
	w := startWorker(t)
	in, out, _ := talk(t, ownClient(t))
	typed(t, in, "stream=2 tick=1h long\n")
	out.await(t, "> echo:")
	_ = w.Stop(expect.Ended())
	out.awaitEnd(t, "> echo:", "the turn was interrupted by its worker's shutdown; its message stays\n")
}

// The console reports that Redis is unreachable, and continues.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	rdb, err := redisconn.Open("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	in, out, _ := talk(t, rdb)
	typed(t, in, "hello\n")
	out.awaitEnd(t, "> ", ")\n> ") // the library's error, and the next prompt
	if !strings.HasPrefix(out.String(), "> Redis at 127.0.0.1:1 refuses the connection: is it running, and is REDIS_URL right? (") {
		t.Errorf("%q", out)
	}
}

// Reading from the terminal fails.
func TestInputFails(t *testing.T) {
	t.Parallel()
	in, _, ended := talk(t, ownClient(t))
	taken := errors.New("input/output error")
	_ = in.CloseWithError(taken)
	if err := <-ended; !errors.Is(err, taken) {
		t.Errorf("%v", err)
	}
}
