// Package unprivileged runs programs of tests as a user without root's rights, because root may do
// everything.
package unprivileged

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/program"
)

// User is an unprivileged user with a directory.
type User struct {
	ID  int // 0: the one that runs the tests, which is unprivileged
	Dir string
}

// Each test has a different user, so that none finds another's processes. Two packages' tests run at
// the same time, so each process begins elsewhere.
var lastUser atomic.Int32

// New makes a user for a test. Root needs setpriv for it: without it the test is skipped, or fails in
// CI.
func New(t *testing.T) User {
	t.Helper()
	u := User{Dir: t.TempDir()}
	if os.Geteuid() != 0 {
		return u
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		expect.Lacks(t, "setpriv (util-linux): root passes by all that is tested here")
	}
	u.ID = 64000 + os.Getpid()%1000*1000 + int(lastUser.Add(1))
	if err := os.Chown(u.Dir, u.ID, u.ID); err != nil {
		t.Fatal(err)
	}
	// The directory above is the test's own, with mode 0777 less the umask.
	if err := os.Chmod(filepath.Dir(u.Dir), 0o755); err != nil { //nolint:gosec // the user goes through it
		t.Fatal(err)
	}
	return u
}

// Command is a program that the user runs.
func (u User) Command(path string, args ...string) *exec.Cmd {
	if u.ID != 0 {
		id := strconv.Itoa(u.ID)
		path, args = "setpriv", append([]string{"--reuid", id, "--regid", id, "--clear-groups", "--", path}, args...)
	}
	cmd := exec.CommandContext(context.Background(), path, args...) // it ends with its test
	cmd.Dir, cmd.Env = u.Dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.Dir}
	return cmd
}

// Start starts a program of the user's.
func (u User) Start(t *testing.T, path string, settings []string, args ...string) *program.Process {
	t.Helper()
	cmd := u.Command(path, args...)
	cmd.Env = append(cmd.Env, settings...)
	return program.Start(t, cmd)
}

// Install copies a program to where the user may run it.
func Install(to, from string, mode os.FileMode) error {
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
