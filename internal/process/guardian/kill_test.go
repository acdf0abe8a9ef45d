//go:build unix

package guardian

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killing starts a script with a Kill that writes a file, and returns that.
func killing(t *testing.T, script, kill string, deadline time.Time) (*Process, string) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file := filepath.Join(t.TempDir(), "killed")
	p, err := Start(Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Kill: []string{"/bin/sh", "-c", kill, file},
		Stdin: null, Stdout: null, Stderr: null, Deadline: deadline,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
	})
	return p, file
}

// The Kill runs once, however the agent ends, and has run before that is reported.
func TestKillRunsAtTheEnd(t *testing.T) {
	t.Parallel()
	for how, test := range map[string]struct {
		script   string
		deadline time.Time
		end      func(p *Process)
	}{
		"exit":             {script: "exit 3"},
		"lease":            {script: "sleep 1000", deadline: time.Now().Add(2 * time.Second)}, // it has started by then
		"order":            {script: "sleep 1000", end: (*Process).Kill},
		"interrupt":        {script: "sleep 1000", end: func(p *Process) { p.Interrupt(0) }},
		"guardian's death": {script: "sleep 1000", end: func(p *Process) { _ = syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL) }},
	} {
		p, file := killing(t, test.script, `echo ran >>"$0"`, test.deadline)
		if test.end != nil {
			test.end(p)
		}
		status := p.Wait()
		text, _ := os.ReadFile(file)
		if string(text) != "ran\n" || status.Left != 0 {
			t.Errorf("%s: %q, %+v", how, text, status)
		}
	}
}

// The guardian runs it also when its worker is dead.
func TestKillRunsWithoutAWorker(t *testing.T) {
	t.Parallel()
	p, file := killing(t, "sleep 1000", `echo ran >>"$0"`, time.Time{})
	_ = p.channel.Close() // as the worker's death does
	p.Wait()
	// The worker's side, which is not dead here, runs it as well if it got no report.
	if text, _ := os.ReadFile(file); !strings.HasPrefix(string(text), "ran\n") {
		t.Errorf("%q", text)
	}
}

// A Kill that fails leaves something, as far as the guardian knows.
func TestKillThatFails(t *testing.T) {
	t.Parallel()
	p, _ := killing(t, "exit 0", "exit 1", time.Time{})
	if status := p.Wait(); status.Left != 1 {
		t.Errorf("%+v", status)
	}
}
