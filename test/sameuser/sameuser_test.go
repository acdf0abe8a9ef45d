//go:build linux

package sameuser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/program"
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
	receipt := r.send("be bad")
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

// When memory runs out agents are killed first, also if their worker cannot read its own binary, as in
// the image.
func TestAgentsScoreHigherThanTheWorker(t *testing.T) {
	t.Parallel()
	own, err := strconv.Atoi(score(os.Getpid()))
	expect.OK(t, err)
	for _, c := range []struct{ name, path, settings string }{
		{"readable", workerPath, "none"},
		{"unreadable", unreadable(t), "none"},
		{"confined", unreadable(t), "confined"},
		{"wrapper", unreadable(t), "wrapper TURNSTILE_WRAPPER=env"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			settings := strings.Fields("TURNSTILE_WORKSPACE_DIR=" + u.Dir + "/work TURNSTILE_ISOLATION=" + c.settings)
			r := rigOf(t, u, c.path, "score", settings...)
			expect.Equal(t, "oom_score_adj of agent, child, guardian and worker", strings.TrimSpace(r.says("tell", ignore).Reply), fmt.Sprintf("%d %[1]d %d %[2]d", own+500, own))
			if strings.Contains(r.worker.Output.String(), "killed no sooner") {
				t.Error("it warns of what it does")
			}
		})
	}
}

// A worker whose agents cannot be killed sooner says so at its start.
func TestSaysThatAgentsAreKilledNoSooner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		expect.Lacks(t, "root, who can mount a control group's file")
	}
	for want, script := range map[string]string{
		"oom_score_adj is 501, and an agent's can be no more than 1000": `echo 501 >/proc/self/oom_score_adj`,
		"memory.oom.group is 1": `mount -t tmpfs tmpfs /sys/fs/cgroup && dir=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup) && mkdir -p "$dir" && echo 1 >"$dir/memory.oom.group"`,
	} {
		cmd := exec.Command("unshare", "--mount", "/bin/sh", "-c", script+`; exec "$0"`, workerPath)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND=true", "REDIS_URL=redis://127.0.0.1:1"}
		p := program.Start(t, cmd)
		p.Output.Until(t, "a warning", regexp.MustCompile("killed no sooner.*"+regexp.QuoteMeta(want)).MatchString)
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
	r := newRigOf(t, unreadable(t), "look")
	if end := r.says("look", ignore); end.Reply != "looked" {
		t.Errorf("it ended as %s (%s): %q", end.Status, end.Why(), end.Reply)
	}
}

// unreadable is the path of a worker that its user cannot read.
func unreadable(t *testing.T) string {
	t.Helper()
	path, err := installUnreadable()
	expect.OK(t, err)
	return path
}

var installUnreadable = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(workerPath), "unreadable")
	return path, unprivileged.Install(path, workerPath, 0o711)
})
