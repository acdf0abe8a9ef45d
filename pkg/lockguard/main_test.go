package lockguard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"turnstile/pkg/lockguard"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// childVar makes the test binary a process that takes one lock: its value is REDIS_URL NAME TTL.
const childVar = "LOCKGUARD_TEST_CHILD"

func TestMain(m *testing.M) {
	if task := os.Getenv(childVar); task != "" {
		if err := beChild(task); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// beChild takes the lock, prints "held FENCE", waits for a line on stdin, and then prints which calls
// report the loss.
func beChild(task string) error {
	var url, name, ttlText string
	if _, err := fmt.Sscan(task, &url, &name, &ttlText); err != nil {
		return err
	}
	ttl, err := time.ParseDuration(ttlText)
	if err != nil {
		return err
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	ctx := context.Background()
	guard, err := lockguard.New(redis.NewClient(options), lockguard.Config{TTL: ttl, Owner: "child"})
	if err != nil {
		return err
	}
	lock, err := guard.Acquire(ctx, name)
	if err != nil {
		return err
	}
	work := lock.Context(ctx)
	fmt.Println("held", lock.Fence())
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	held := lock.Held()
	<-work.Done() // the caller writes the line after the TTL
	fmt.Println("lost",
		errors.Is(held, lockguard.ErrLost),
		errors.Is(context.Cause(work), lockguard.ErrLost),
		errors.Is(context.Cause(lock.Context(ctx)), lockguard.ErrLost),
		errors.Is(lock.Release(ctx), lockguard.ErrLost))
	return nil
}

// child is a process that takes a lock.
type child struct {
	*exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func startChild(t *testing.T, url, name string, ttl time.Duration) *child {
	t.Helper()
	expect.NotQuick(t)
	c := &child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", childVar, url, name, ttl))
	c.Stderr = os.Stderr
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.stdin, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(stdout)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

// stop sends SIGSTOP to the child and returns when it has stopped.
func (c *child) stop(t *testing.T) {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("not stopped: %v, %v", status, err)
	}
}

// says reads the child's next line, which must start with word, and returns the rest of it.
func (c *child) says(t *testing.T, word string) string {
	t.Helper()
	if !c.lines.Scan() {
		t.Fatalf("the child ended: %v", c.lines.Err())
	}
	rest, ok := strings.CutPrefix(c.lines.Text(), word)
	if !ok {
		t.Fatalf("the child says %q, want %q", c.lines.Text(), word)
	}
	return strings.TrimSpace(rest)
}
