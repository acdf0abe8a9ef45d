//go:build linux

package isolation

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"turnstile"

	"turnstile/internal/process/confine"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
	"turnstile/test/unprivileged"
)

// secret is in the worker's environment.
const secret = "sesame"

var workerPath, agentPath string

func TestMain(m *testing.M) { unprivileged.Main(m, roles, &workerPath, &agentPath) }

// The levels' settings.
var levels = map[string]func(t *testing.T) []string{
	"none": func(*testing.T) []string { return nil },
	"confined": func(t *testing.T) []string {
		if err := confine.Check(); err != nil {
			expect.Lacks(t, err.Error())
		}
		return nil
	},
	"wrapper": func(t *testing.T) []string {
		if err := exec.Command("bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "true").Run(); err != nil {
			expect.Lacks(t, "bwrap (Debian's bubblewrap): "+err.Error())
		}
		return []string{"TURNSTILE_WRAPPER=" + recipe + " --ro-bind " + agentPath + " " + agentPath}
	},
}

// TestAttacks tries each attack of the table, with a worker for each isolation.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for level, settings := range levels {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			attackAll(t, level, settings(t))
		})
	}
}

func attackAll(t *testing.T, level string, settings []string) {
	u := unprivileged.New(t)
	target := targets{
		Redis:   hostOf(t, redistest.URL(t)),
		Gateway: listener(t), Metadata: listener(t), Named: listener(t), UDP: echo(t),
		Pages: freeAddress(t),
		Files: []string{file(t, u, filepath.Join(u.Dir, "worker.env")), file(t, u, filepath.Join(u.Dir, ".ssh", "id_ed25519"))},
	}
	temporary, err := os.CreateTemp("", "isolation-") //nolint:usetesting // where programs share files
	expect.OK(t, err)
	t.Cleanup(func() { _ = os.Remove(temporary.Name()) })
	expect.OK(t, os.Chown(temporary.Name(), u.ID, u.ID))
	target.Temporary = temporary.Name()

	client := actors.NewClient(redistest.New(t))
	_, port, _ := net.SplitHostPort(target.Named)
	work := filepath.Join(u.Dir, "work")
	common := []string{
		"REDIS_URL=" + redistest.URL(t), "SECRET=" + secret, "TURNSTILE_AGENT=exec", "TURNSTILE_ISOLATION=" + level, "TURNSTILE_WORKSPACE_DIR=" + work,
		"TURNSTILE_HTTP_ADDR=" + target.Pages, "TURNSTILE_HTTP_TOKEN=" + secret, "TURNSTILE_LOG_LEVEL=debug", "TURNSTILE_CONFINED_PORTS=" + port,
		"TURNSTILE_CONCURRENCY=2", "TURNSTILE_INTERRUPT_GRACE=0", "TURNSTILE_DRAIN_TIMEOUT=0",
	}
	// One role for both sessions: the message decides.
	worker := u.Start(t, workerPath, append(append(common, "TURNSTILE_AGENT_COMMAND="+agentPath+" role=either"), settings...))
	ctx, cancel := context.WithTimeout(t.Context(), expect.Patience)
	t.Cleanup(cancel)
	send := func(key, text string) turnstile.Receipt {
		receipt, err := client.Session(key).Send(ctx, turnstile.Message{Text: text})
		expect.OK(t, err)
		return receipt
	}

	// Without isolation the agents have no directories: these are made here.
	plain := ""
	if level == "none" {
		plain = filepath.Join(work, "other")
		for _, dir := range []string{work, plain} {
			expect.OK(t, os.MkdirAll(dir, 0o700))
			expect.OK(t, os.Chown(dir, u.ID, u.ID))
		}
	}
	send("other", "other "+plain)
	var ready []string
	expect.Soon(t, "the other agent", func() bool {
		ready, _ = filepath.Glob(work + "/*/ready")
		return len(ready) > 0
	})
	text, err := os.ReadFile(ready[0])
	expect.OK(t, err)
	var other targets
	expect.OK(t, json.Unmarshal(text, &other))
	target.Dir, target.Abstract, target.Shared = other.Dir, other.Abstract, other.Shared
	target.Other = pidOf(t, u.ID)
	guardian := target.Other
	for parent(guardian) != worker.Process.Pid {
		guardian = parent(guardian)
	}
	target.Pids = []int{worker.Process.Pid, guardian}

	text, err = json.Marshal(target)
	expect.OK(t, err)
	receipt := send("attacker", "attack "+string(text))
	end, err := actors.Follow(ctx, client.Session("attacker"), receipt.ID, func(session.Event) {})
	expect.OK(t, err)
	if end.Status != session.StatusDone {
		t.Fatalf("the attack ended as %s: %s", end.Status, end.Why())
	}
	results := map[string]string{}
	expect.OK(t, json.Unmarshal([]byte(end.Reply), &results))
	if outlived(t, u, work) {
		delete(results, "outlive")
	} else {
		results["outlive"] = "it was killed before the turn ended"
	}
	for _, r := range table {
		want := map[string]string{"none": r.none, "confined": r.confined, "wrapper": r.wrapper}[level]
		got, why := yes, results[r.id]
		if why != "" {
			got = no
		}
		t.Logf("%-20s %-15s %s", r.id, got, strings.ReplaceAll(why, "\n", "; "))
		if got != want || strings.Contains(why, errAlarm.Error()) {
			t.Errorf("%s is %s, and the table has %s. %s", r.id, got, want, why)
		}
	}
}

// outlived reports whether a process of the attacker lives.
func outlived(t *testing.T, u unprivileged.User, work string) bool {
	t.Helper()
	found, _ := filepath.Glob(work + "/*/lock-*")
	if len(found) == 0 {
		found, _ = filepath.Glob(u.Dir + "/lock-*")
	}
	expect.Equal(t, "locks", len(found), 2)
	return slices.ContainsFunc(found, isLocked)
}

// file makes a file of the user's.
func file(t *testing.T, u unprivileged.User, path string) string {
	t.Helper()
	expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	expect.OK(t, os.WriteFile(path, []byte("REDIS_URL="+secret), 0o600))
	expect.OK(t, os.Chown(filepath.Dir(path), u.ID, u.ID))
	expect.OK(t, os.Chown(path, u.ID, u.ID))
	return path
}

// listener listens, and takes connections until the test ends.
func listener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	expect.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// freeAddress is an address that is free now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	expect.OK(t, err)
	defer l.Close()
	return l.Addr().String()
}

// echo returns each datagram.
func echo(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	expect.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	return c.LocalAddr().String()
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	expect.OK(t, err)
	return u.Host
}

// pidOf finds the other agent among the user's processes.
func pidOf(t *testing.T, uid int) int {
	t.Helper()
	names, err := os.ReadDir("/proc")
	expect.OK(t, err)
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		info, err := os.Stat("/proc/" + name.Name())
		if err != nil || uid != 0 && int(info.Sys().(*syscall.Stat_t).Uid) != uid {
			continue
		}
		words, _ := os.ReadFile("/proc/" + name.Name() + "/cmdline")
		if strings.HasPrefix(string(words), agentPath+"\x00role=other\x00") {
			return pid
		}
	}
	t.Fatal("the other agent is not found")
	return 0
}

func parent(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := append(strings.Fields(rest), "", "")
	n, _ := strconv.Atoi(fields[1])
	if n == 0 {
		panic("the other agent is not the worker's")
	}
	return n
}
