//go:build linux

package sameuser

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"turnstile"
	_ "turnstile/internal/process/command" // a part of the worker: a change there must not leave a cached test result
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// Both programs are owned by the user that runs the tests, and all may read them.
var workerPath, agentPath string

func TestMain(m *testing.M) {
	if playsRole(os.Args) {
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sameuser-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = install(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func install(dir string) error {
	workerPath, agentPath = filepath.Join(dir, "worker"), filepath.Join(dir, "agent")
	built, err := program.Path("turnstile/cmd/worker")
	if err != nil {
		return err
	}
	if err := copyFile(workerPath, built, 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := copyFile(agentPath, self, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755) //nolint:gosec // an unprivileged user runs them
}

func copyFile(to, from string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(to, mode)
	}
	return err
}

// Each test has a different user, so that none finds another's processes.
var lastUser atomic.Int32

// user is an unprivileged user with a directory.
type user struct {
	id  int // 0: the one that runs the tests, which is unprivileged
	dir string
}

func newUser(t *testing.T) user {
	t.Helper()
	u := user{dir: t.TempDir()}
	if os.Geteuid() != 0 {
		return u
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		if on, _ := strconv.ParseBool(os.Getenv("CI")); on {
			t.Fatal("CI lacks setpriv, of util-linux: nothing would be tested")
		}
		t.Skip("root passes by all that is tested here, and setpriv, of util-linux, is missing")
	}
	u.id = 64000 + int(lastUser.Add(1))
	if err := os.Chown(u.dir, u.id, u.id); err != nil {
		t.Fatal(err)
	}
	// The directory above is the test's own, with mode 0777 less the umask.
	if err := os.Chmod(filepath.Dir(u.dir), 0o755); err != nil { //nolint:gosec // the user goes through it
		t.Fatal(err)
	}
	return u
}

// command is a program that the user runs.
func (u user) command(path string, args ...string) *exec.Cmd {
	if u.id != 0 {
		id := strconv.Itoa(u.id)
		path, args = "setpriv", append([]string{"--reuid", id, "--regid", id, "--clear-groups", "--", path}, args...)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = u.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.dir}
	return cmd
}

// rig is a worker of a separate user, with an agent that plays a role.
type rig struct {
	*testing.T
	user
	ctx    context.Context
	client *actors.Client
	worker *program.Process
}

func newRig(t *testing.T, role string, settings ...string) rig {
	t.Helper()
	return newRigOf(t, workerPath, role, settings...)
}

func newRigOf(t *testing.T, path, role string, settings ...string) rig {
	t.Helper()
	return rigOf(t, newUser(t), path, role, settings...)
}

func rigOf(t *testing.T, u user, path, role string, settings ...string) rig {
	t.Helper()
	client := actors.NewClient(redistest.New(t))
	worker := u.start(t, path, append([]string{
		"REDIS_URL=" + redistest.URL(t), "SECRET=" + secret, "TURNSTILE_LOG_LEVEL=debug",
		"TURNSTILE_AGENT=exec", fmt.Sprintf("TURNSTILE_AGENT_COMMAND=%s role=%s %s", agentPath, role, u.dir),
		"TURNSTILE_CONCURRENCY=1", "TURNSTILE_SENTINEL_TTL=" + expect.Lease(time.Second).String(), "TURNSTILE_DRAIN_TIMEOUT=0", "TURNSTILE_INTERRUPT_GRACE=0",
		"TURNSTILE_RETRY_BACKOFF=10ms",
	}, settings...))
	ctx, cancel := context.WithTimeout(t.Context(), expect.Patience)
	t.Cleanup(cancel)
	return rig{t, u, ctx, client, worker}
}

// start starts a program of the user's.
func (u user) start(t *testing.T, path string, settings []string, args ...string) *program.Process {
	t.Helper()
	t.Cleanup(u.killAll)
	cmd := u.command(path, args...)
	cmd.Env = append(cmd.Env, settings...)
	return program.Start(t, cmd)
}

// killAll ends processes that escaped from a failed test.
func (u user) killAll() {
	for _, field := range strings.Fields(u.noted("pids")) {
		if pid, err := strconv.Atoi(field); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// says submits a message and waits for its end.
func (r rig) says(text string, see func(session.Event)) session.Outcome {
	r.Helper()
	receipt := r.submit(text)
	end, err := actors.Follow(r.ctx, r.client.Session(r.key()), receipt.ID, see)
	if err != nil {
		r.Fatalf("the session is stuck: %v", err)
	}
	return end
}

func (r rig) submit(text string) turnstile.Receipt {
	r.Helper()
	receipt, err := r.client.Session(r.key()).Send(r.ctx, turnstile.Message{Text: text})
	if err != nil {
		r.Fatal(err)
	}
	return receipt
}

func (r rig) key() string { return strings.ReplaceAll(r.Name(), "/", "-") }

func ignore(session.Event) {}

// goesOn checks that the session replies to its next message.
func (r rig) goesOn() {
	r.Helper()
	if end := r.says("good", ignore); end.Status != session.StatusDone || end.Reply != "fine" {
		r.Errorf("the next message ended as %s (%s): %q", end.Status, end.Why(), end.Reply)
	}
}

// noted is the text that agents wrote into a file of the user's directory.
func (u user) noted(name string) string {
	return strings.TrimSpace(read(filepath.Join(u.dir, name)))
}

// read returns a file's text, which may be missing.
func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}
