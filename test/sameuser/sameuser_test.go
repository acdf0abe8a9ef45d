//go:build linux

package sameuser

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/unprivileged"
)

// An agent can read nothing of its guardian and its worker in /proc: no environment with REDIS_URL,
// token and keys, no memory, no files.
func TestAgentCannotLookIntoItsWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, "look")
	if end := r.says("look", ignore); end.Reply != "looked" {
		t.Errorf("it ended as %s (%s), and the agent found:\n%s", end.Status, end.Why(), end.Reply)
	}
}

// An agent that makes its guardian forget the lease still ends when its worker is suspended.
func TestAgentCannotTakeItsLeaseAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, "unlease")
	agent := 0
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	receipt := r.submit("be bad")
	_, _ = actors.Follow(ctx, r.client.Session(r.key()), receipt.ID, func(e session.Event) {
		if word, _, found := strings.Cut(e.Text, " "); found && agent == 0 {
			agent, _ = strconv.Atoi(word)
			cancel()
		}
	})
	if agent == 0 {
		t.Fatal("the agent did not begin")
	}
	r.worker.Signal(syscall.SIGSTOP) // with a lease of a second; without it the agent would live on
	expect.Soon(t, "the agent's end", func() bool { return !alive(agent) })
}

// A report in the guardian's name does not block the worker, nor does an escaped process that holds
// its channel open.
func TestForgedReportBlocksNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "forge", "TURNSTILE_AGENT_TIMEOUT=3s", "TURNSTILE_MAX_ATTEMPTS=1")
	end := r.says("be bad", ignore)
	if end.Status != session.StatusFailed || !strings.Contains(end.Why(), "guardian was killed") {
		t.Errorf("it ended as %s (%s): %q", end.Status, end.Why(), end.Reply)
	}
	r.goesOn()
}

// A guardian that its agent hinders only delays the end of a turn.
func TestHinderedGuardianBlocksNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "hinder", "TURNSTILE_AGENT_TIMEOUT=3s")
	end := r.says("be bad", ignore)
	if end.Status != session.StatusFailed || !strings.HasPrefix(end.Why(), "the agent took too long") {
		t.Errorf("it ended as %s (%s): %q", end.Status, end.Why(), end.Reply)
	}
	r.goesOn()
	for _, pid := range strings.Fields(r.noted("pids")) {
		if n, _ := strconv.Atoi(pid); alive(n) {
			t.Errorf("process %s of the first turn is alive", pid)
		}
	}
}

// Everything that a killed guardian's agent started, also in new sessions, is gone before its turn
// runs again.
func TestKilledGuardiansAgentIsGoneBeforeTheRetry(t *testing.T) {
	t.Parallel()
	r := newRig(t, "flee")
	if end := r.says("flee", ignore); end.Status != session.StatusDone || end.Reply != "looked" {
		t.Errorf("it ended as %s (%s): %q", end.Status, end.Why(), end.Reply)
	}
	pids := strings.Fields(r.noted("pids"))
	if len(pids) != 3 {
		t.Errorf("the first run had the processes %q, not an agent, a branch and its child", pids)
	}
	if left := strings.Fields(r.noted("alive")); len(left) > 0 {
		t.Errorf("of the processes %q of the first run %q were alive in the second", pids, left)
	}
	// None is left as a zombie either.
	for _, pid := range pids {
		if n, _ := strconv.Atoi(pid); syscall.Kill(n, 0) == nil {
			t.Errorf("process %s was not reaped", pid)
		}
	}
}

// A worker that cannot find out whether a process is left does not run the turn again.
func TestUnsureEndIsNotRetried(t *testing.T) {
	t.Parallel()
	r := newRig(t, "starve")
	end := r.says("be bad", ignore)
	if end.Status != session.StatusFailed || !strings.Contains(end.Why(), "may be alive") || r.noted("runs") != "one" {
		t.Errorf("it ended as %s (%s) after the runs %q", end.Status, end.Why(), r.noted("runs"))
	}
}

// When memory runs out agents are killed first.
func TestAgentsScoreHigherThanTheWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, "score")
	var scores []int
	for _, word := range strings.Fields(r.says("tell", ignore).Reply) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		scores = append(scores, n)
	}
	if len(scores) != 3 || scores[0] <= scores[2] || scores[1] != scores[2] {
		t.Errorf("oom_score_adj of agent, guardian and worker: %v", scores)
	}
}

// A binary that its user cannot read is protected from exec on, before its first line runs. One
// that can be read is open until it protects itself.
func TestUnreadableBinaryIsNeverOpen(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	if u.ID == 0 {
		t.Skip("only root can make a file that its user may run and not read")
	}
	if text, _ := os.ReadFile("/proc/sys/fs/suid_dumpable"); strings.TrimSpace(string(text)) == "1" {
		t.Skip("this system lets everybody debug everything: fs.suid_dumpable is 1")
	}
	for mode, open := range map[os.FileMode]bool{0o755: true, 0o711: false} {
		path := filepath.Join(filepath.Dir(u.Dir), "idle"+strconv.FormatUint(uint64(mode), 8))
		if err := unprivileged.Install(path, agentPath, mode); err != nil {
			t.Fatal(err)
		}
		// Not by setpriv itself: at its exec it has root's right to read everything.
		idle := u.Command("/bin/sh", "-c", `exec "$0" role=idle`, path)
		stdin, err := idle.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := idle.Start(); err != nil {
			t.Fatal(err)
		}
		expect.Soon(t, "the program, which the process is yet to become", func() bool {
			return strings.HasPrefix(cmdline(idle.Process.Pid), path)
		})
		out, err := u.Command(agentPath, "role=peek", strconv.Itoa(idle.Process.Pid)).Output()
		if err != nil || len(out) > 0 != open {
			t.Errorf("mode %o: %v, and it was found:\n%s", mode, err, out)
		}
		_ = stdin.Close()
		if err := idle.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// cmdline is readable for everybody, and empty during exec.
func cmdline(pid int) string {
	for {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil || len(text) > 0 {
			return string(text)
		}
	}
}

// A worker that cannot read its own binary still runs agents.
func TestUnreadableWorkerRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "worker")
	if err := unprivileged.Install(path, workerPath, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the user goes through it
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755); err != nil { //nolint:gosec // as before
		t.Fatal(err)
	}
	r := newRigOf(t, path, "look")
	if end := r.says("look", ignore); end.Reply != "looked" {
		t.Errorf("it ended as %s (%s): %q", end.Status, end.Why(), end.Reply)
	}
}
