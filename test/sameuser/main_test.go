//go:build linux

package sameuser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	"turnstile/test/unprivileged"
)

var workerPath, agentPath string

func TestMain(m *testing.M) { unprivileged.Main(m, roles, &workerPath, &agentPath) }

type user struct{ unprivileged.User }

func newUser(t *testing.T) user {
	t.Helper()
	return user{unprivileged.New(t)}
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
		"TURNSTILE_AGENT=exec", fmt.Sprintf("TURNSTILE_AGENT_COMMAND=%s role=%s %s", agentPath, role, u.Dir),
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
	return u.Start(t, path, settings, args...)
}

// killAll ends processes that escaped from a failed test.
func (u user) killAll() {
	for _, field := range strings.Fields(u.noted("pids")) {
		if pid, err := strconv.Atoi(field); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// says sends a message and waits for its end.
func (r rig) says(text string, see func(session.Event)) session.Outcome {
	r.Helper()
	receipt := r.send(text)
	end, err := actors.Follow(r.ctx, r.client.Session(r.key()), receipt.ID, see)
	if err != nil {
		r.Fatalf("the session is stuck: %v", err)
	}
	return end
}

func (r rig) send(text string) turnstile.Receipt {
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
	return strings.TrimSpace(read(filepath.Join(u.Dir, name)))
}

// read returns a file's text, which may be missing.
func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}
