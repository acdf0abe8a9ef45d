package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	expect.AtOnce(4)
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// result is the result of one call of the program.
type result struct {
	code     int
	out, err string
}

// enqueue runs the program in this process.
func enqueue(t *testing.T, ctx context.Context, url, stdin string, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	code := run(ctx, args, strings.NewReader(stdin), &out, &err, []string{"REDIS_URL=" + url})
	return result{code, out.String(), err.String()}
}

// want checks the exit code.
func (r result) want(t *testing.T, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.err)
	}
	return r
}

// objects are the lines of --json.
func (r result) objects(t *testing.T) []map[string]any {
	t.Helper()
	var list []map[string]any
	for line := range strings.Lines(r.out) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("stdout %q: %v", line, err)
		}
		list = append(list, o)
	}
	return list
}

// text is a field of an object, "" if it is not there.
func text(o map[string]any, field string) string {
	s, _ := o[field].(string)
	return s
}

// oneLine checks that stderr has one line, with all of the words.
func (r result) oneLine(t *testing.T, words ...string) {
	t.Helper()
	if strings.Count(r.err, "\n") != 1 || !strings.HasPrefix(r.err, "enqueue: ") {
		t.Errorf("stderr is not one line of enqueue's: %q", r.err)
	}
	for _, w := range words {
		if !strings.Contains(r.err, w) {
			t.Errorf("stderr lacks %q: %q", w, r.err)
		}
	}
}

// client is the test's own client. Closing it ends blocked reads.
func client(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	rdb, err := redisconn.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// turns is a worker that ends each turn with the result of handle, which returns nil if it has
// ended the turn itself. It works until the test ends.
func turns(t *testing.T, url string, cfg protocol.Config, handle func(*protocol.Claim) *protocol.End) {
	t.Helper()
	rdb, err := redisconn.Open(acl.As(t, url, acl.Worker))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Worker, cfg.SentinelTTL = "w-"+turnstile.NewMessageID(), time.Hour // it does not renew
	c, err := actors.NewConsumer(rdb, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = rdb.Close() // ends the blocking pop
		wg.Wait()
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			pause, _ := c.Due(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			sessions, err := c.Await(ctx, time.Second)
			if err == nil && len(sessions) > 0 {
				var holds []*protocol.Claim
				holds, err = c.Claim(ctx, sessions)
				for _, h := range holds {
					wg.Go(func() { serve(t, ctx, h, handle) })
				}
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("worker: %v", err)
				return
			}
		}
	})
}

func serve(t *testing.T, ctx context.Context, h *protocol.Claim, handle func(*protocol.Claim) *protocol.End) {
	for more := true; more; {
		err := h.Promote(ctx)
		end := &protocol.End{Status: session.StatusStopped}
		if err == nil {
			end = handle(h)
		} else if !errors.Is(err, protocol.ErrStopRequested) {
			if ctx.Err() == nil {
				t.Errorf("promote: %v", err)
			}
			return
		}
		if end == nil {
			return
		}
		if more, err = h.Finish(ctx, *end); err != nil {
			if ctx.Err() == nil {
				t.Errorf("finish: %v", err)
			}
			return
		}
	}
}

var hour = protocol.Config{Retention: time.Hour}

// echo replies with the text, and fails if the text asks for it.
func echo(h *protocol.Claim) *protocol.End {
	m := h.Turn().Message
	if cause, ok := strings.CutPrefix(m.Text, "fail "); ok {
		return &protocol.End{Status: session.StatusFailed, Error: cause}
	}
	return &protocol.End{Status: session.StatusDone, Reply: "echo: " + m.Text}
}

// occupy takes the session's next message and keeps it running. finish ends the turn.
func occupy(t *testing.T, url, session string, cfg protocol.Config) (finish func()) {
	t.Helper()
	cfg.Worker, cfg.SentinelTTL = "occupier", time.Hour
	c, err := actors.NewConsumer(client(t, acl.As(t, url, acl.Worker)), cfg)
	if err != nil {
		t.Fatal(err)
	}
	holds, err := c.Claim(context.Background(), []string{session})
	if err != nil || len(holds) != 1 {
		t.Fatalf("claim: %v, %v", holds, err)
	}
	if err := holds[0].Promote(context.Background()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := holds[0].Finish(context.Background(), *echo(holds[0])); err != nil {
			t.Error(err)
		}
	}
}

// empty checks that nothing is stored.
func empty(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	keys, err := rdb.Keys(context.Background(), "*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("stored: %v, %v", keys, err)
	}
}

func bg(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), expect.Patience)
	t.Cleanup(cancel)
	return ctx
}

func newRedis(t *testing.T) (url string, rdb redis.UniversalClient) {
	t.Helper()
	return acl.As(t, redistest.URL(t), acl.Sender), redistest.New(t)
}

// enqueue, and a sender that uses only docs/wire.md, need no more of Redis than docs/security.md
// grants their user.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestReceipts", "TestTheMessageArrivesAsItWasGiven", "TestADelayedMessageIsWaitedFor",
		"TestFollowStreams", "TestWaitGoesOnThroughARetryAndARequeue", "TestB08_CommandsAreAnsweredAtOnce",
		"TestAllModes", "TestAFileWithReplies", "TestFollowASteer", "TestFollowThroughADrain", "TestRefusedMessagesExitWith3",
		"TestWireMessageHasAReply", "TestWireDelayedMessage", "TestWireBadPayload",
		"TestWaitTellsThatNoWorkerRuns", "TestReplyTo",
	)
}

// start starts the built program. finish waits for its end.
func start(t *testing.T, url, stdin string, args ...string) (cmd *exec.Cmd, finish func() result) {
	t.Helper()
	cmd = exec.Command(program.Build(t, "turnstile/cmd/enqueue"), args...)
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &stderr
	cmd.Env = []string{"REDIS_URL=" + url}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, func() result {
		_ = cmd.Wait() // the exit code tells
		return result{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
	}
}

func TestBinary(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, echo)
	for name, c := range map[string]struct {
		url, stdin string
		args       []string
		code       int
		out, err   string
	}{
		"wait":        {url, "", []string{"-s", "a", "--wait", "hello"}, exitOK, "echo: hello\n", ""},
		"stdin":       {url, "two\nlines\n", []string{"-s", "a", "--wait", "-"}, exitOK, "echo: two\nlines\n", ""},
		"failed":      {url, "", []string{"-s", "a", "--wait", "--id", "f", "fail badly"}, exitEnded, "", "enqueue: message f failed: badly\n"},
		"usage":       {url, "", []string{"hello"}, exitUsage, "", "enqueue: no session: name one with -s SESSION; see enqueue --help\n"},
		"unreachable": {nowhere, "", []string{"-s", "a", "x"}, exitOther, "", "enqueue: Redis at 127.0.0.1:1 refuses the connection: is it running, and is REDIS_URL right? (dial tcp 127.0.0.1:1: connect: connection refused); nothing was stored\n"},
		"file":        {url, `{"session":"b","text":"x"}` + "\nnonsense\n", []string{"--file", "-"}, exitUsage, "1 sent (1 accepted), 1 bad line\n", "enqueue: line 2: invalid JSON: invalid character 'o' in literal null (expecting 'u')\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, finish := start(t, c.url, c.stdin, c.args...)
			if r := finish(); r != (result{c.code, c.out, c.err}) {
				t.Errorf("got  %+v\nwant %+v", r, result{c.code, c.out, c.err})
			}
		})
	}
}

func TestBinaryCtrlC(t *testing.T) {
	t.Parallel()
	redistest.Real(t) // for CLIENT LIST
	for _, flag := range []string{"--wait", "--follow"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			url, rdb := newRedis(t)
			cmd, finish := start(t, url, "", "-s", "a", "--id", "m", flag, "hello")
			expect.Soon(t, "the wait to begin", func() bool {
				list, err := rdb.Do(bg(t), "CLIENT", "LIST").Text()
				return err == nil && hasWaiter(list, url)
			})
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			finish().want(t, exitInterrupted).oneLine(t, "interrupted", "stays", "enqueue -s a --id m --follow --after 0-0\n")
			turns(t, url, hour, echo)
			if r := enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "--wait", "hello").want(t, exitOK); r.out != "echo: hello\n" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// hasWaiter looks for the program's blocking read in url's database.
func hasWaiter(clients, url string) bool {
	db := " db=" + url[strings.LastIndex(url, "/")+1:] + " "
	for line := range strings.Lines(clients) {
		if strings.Contains(line, "name=turnstile-enqueue ") && strings.Contains(line, "cmd=xread") && strings.Contains(line, db) {
			return true
		}
	}
	return false
}
