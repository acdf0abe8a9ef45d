package main

import (
	"bytes"
	"context"
	"os"
	osexec "os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnstile"
	"turnstile/internal/program/operator"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	programs "turnstile/test/program"
	"turnstile/test/redistest"
	"turnstile/test/watched"
)

func TestMain(m *testing.M) {
	exec.Init()
	syscall.Umask(0o022) // only its owner may write to t.TempDir
	expect.AtOnce(4)
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// The exit codes.
const (
	exitOK, exitOther, exitUsage              = operator.ExitOK, operator.ExitOther, operator.ExitUsage
	exitRefused, exitRestart, exitInterrupted = operator.ExitRefused, operator.ExitRestart, operator.ExitInterrupted
)

// waits bounds how long anything may take.
const waits = expect.Patience

// result is the result of one call of the program.
type result struct {
	code     int
	out, err string
}

// call runs the program in this process, to its end.
func call(t *testing.T, environ []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waits)
	defer cancel()
	var out, stderr bytes.Buffer
	code := run(ctx, args, environ, strings.NewReader(""), &out, &stderr)
	if ctx.Err() != nil {
		t.Fatalf("worker %v did not end by itself\n%s%s", args, &out, &stderr)
	}
	return result{code, out.String(), stderr.String()}
}

// want checks the exit code.
func (r result) want(t *testing.T, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.err)
	}
	return r
}

// running is the program in this process.
type running struct {
	out, err *watched.Output
	cancel   context.CancelFunc
	ended    chan int
}

// start runs the program until stop, or the test's end.
func start(t *testing.T, environ []string, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{out: watched.NewOutput(), err: watched.NewOutput(), cancel: cancel, ended: make(chan int, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- run(ctx, args, environ, strings.NewReader(""), r.out, r.err)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// stop acts like SIGTERM, and checks that the program exits with code 0.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	r.wait(t, exitOK)
}

func (r *running) wait(t *testing.T, code int) {
	t.Helper()
	select {
	case got := <-r.ended:
		if got != code {
			t.Fatalf("exit code %d, want %d\n%s%s", got, code, r.out, r.err)
		}
	case <-time.After(waits):
		t.Fatalf("it does not end\n%s%s", r.out, r.err)
	}
}

// echoWorker starts a worker with the agent echo.
func echoWorker(t *testing.T, url string, settings ...string) *running {
	t.Helper()
	url = acl.As(t, url, acl.Worker)
	r := start(t, append([]string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo"}, settings...))
	r.err.Await(t, "worker started")
	return r
}

// client is the test's own client.
func client(t *testing.T, url string) *actors.Client {
	t.Helper()
	rdb, err := redisconn.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return actors.NewClient(rdb)
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waits)
	t.Cleanup(cancel)
	return ctx
}

// send sends a message and returns its ID.
func send(t *testing.T, c *actors.Client, key, text string) string {
	t.Helper()
	r, err := c.Session(key).Send(limited(t), turnstile.Message{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

// reply sends a message and waits for the reply.
func reply(t *testing.T, c *actors.Client, key, text string) string {
	t.Helper()
	end, err := c.Session(key).Wait(limited(t), send(t, c, key, text))
	if err != nil {
		t.Fatal(err)
	}
	return end.Reply
}

// untilEvent follows a message until an event of a type is seen.
func untilEvent(t *testing.T, c *actors.Client, key, id string, kind session.EventType) (seen session.Event) {
	t.Helper()
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	_, _ = actors.Follow(ctx, c.Session(key), id, func(e session.Event) { // ends with ctx
		if e.Type == kind {
			seen = e
			cancel()
		}
	})
	if seen.Type != kind {
		t.Fatalf("no event %s for %s", kind, id)
	}
	return seen
}

func newCommand(t *testing.T, environ []string, args ...string) *osexec.Cmd {
	t.Helper()
	cmd := osexec.Command(programs.Build(t, "turnstile/cmd/worker"), args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...)
	return cmd
}

// process starts the built program.
func process(t *testing.T, environ []string, args ...string) (*osexec.Cmd, *watched.Output) {
	t.Helper()
	cmd := newCommand(t, environ, args...)
	return cmd, started(t, cmd)
}

func started(t *testing.T, cmd *osexec.Cmd) *watched.Output {
	t.Helper()
	s := watched.NewOutput()
	cmd.Stdout, cmd.Stderr = s, s
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return s
}

// exits waits for the end of a process and checks its code.
func exits(t *testing.T, cmd *osexec.Cmd, s *watched.Output, code int) {
	t.Helper()
	timer := time.AfterFunc(waits, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait() // the exit code tells
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("exit code %d, want %d\n%s", got, code, s)
	}
}

func newRedis(t *testing.T) (url string, c *actors.Client) {
	t.Helper()
	url = acl.As(t, redistest.URL(t), acl.Operator)
	return url, client(t, acl.As(t, url, acl.Sender))
}

// The operator's commands need no more of Redis than docs/security.md grants its user.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestLook", "TestShowQuestion", "TestDeadList", "TestDeadRerun", "TestDeadDrop",
		"TestForgetWithADirectory", "TestSender", "TestOutboxList", "TestOutboxRedriveAndDrop", "TestDestinations", "TestShowOwing", "TestStates", "TestLs", "TestWorkers", "TestShowRunningTurn", "TestShowFollow",
	)
}

// A guardian is the worker's program started again, once for each turn of an agent that is a
// command. It uses no script, so it must not build them: with 1.8 MB of scripts it began with a
// garbage collection.
func TestScriptsAreMadeWhenTheyAreUsed(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(self, "-test.run", "^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := regexp.MustCompile(`init turnstile/internal/protocol @.*?(\d+) bytes`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("the package's initialization is not told: %s", out)
	}
	if n, _ := strconv.Atoi(string(found[1])); n > 300_000 {
		t.Errorf("the package takes %d bytes when it is initialized", n)
	}
}
