package guardian

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// forkChains is an argument with which this binary begins eight chains of processes that fork and end at once, each in
// a session of its own.
const forkChains = "test-fork-chains"

func init() {
	if len(os.Args) > 1 && os.Args[1] == forkChains {
		for range 8 {
			if fork() == 0 {
				chain()
			}
		}
		_, _ = os.Stdout.WriteString("x")
		time.Sleep(time.Hour)
	}
}

// chain runs in a process with one thread, which has no Go runtime any more: it makes system calls and nothing else.
//
//go:nosplit
//go:norace
func chain() {
	for {
		if fork() != 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
	}
}

//go:nosplit
//go:norace
func fork() uintptr {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	return pid
}

// Processes that fork faster than a list of all can be made do not outlast their turn.
func TestForkChains(t *testing.T) {
	t.Parallel()
	self, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(Spec{Path: self, Args: []string{self, forkChains}, Stdin: os.Stdin, Stdout: w, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	firstByte(t, r)
	p.Kill()
	if s := p.Wait(); s.GuardianDied || s.Left > 0 {
		t.Errorf("%+v", s)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	for stat, want := range map[string]proc{
		"7 (sh) S 3 7 8 0 -1":            {7, 3, 7, 8, false},
		"7 (a) b) Z 1 (c)) Z 4 5 6 0 -1": {7, 4, 5, 6, true},
	} {
		if got, ok := parseStat(7, []byte(stat)); !ok || got != want {
			t.Errorf("%s: %+v, %v", stat, got, ok)
		}
	}
	for _, stat := range []string{"", "7 (sh", "7 (sh)", "7 (sh) S x 7", "7 (sh) S 3 7"} {
		if got, ok := parseStat(7, []byte(stat)); ok {
			t.Errorf("%q is read as %+v", stat, got)
		}
	}
}

func TestDescendants(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	firstByte(t, out)
	depth := map[int]int{os.Getpid(): 0}
	deepest := 0
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range descendants(all) {
		depth[p.pid] = depth[p.ppid] + 1
		if p.ppid == cmd.Process.Pid {
			deepest = depth[p.pid]
			if err := kill(p.pid); err != nil {
				t.Error(err)
			}
		}
	}
	if deepest != 2 {
		t.Errorf("the grandchild was found at depth %d", deepest)
	}
	_ = cmd.Wait()
}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
