package guardian

import (
	"bytes"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CLOCK_BOOTTIME continues while the machine is suspended, as Redis' clock does.
const clockID = unix.CLOCK_BOOTTIME

func agentAttr() *syscall.SysProcAttr {
	// Pdeathsig follows the thread that forks, which run has locked.
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// becomeSubreaper makes every orphan among the agent's descendants a child of this process.
func becomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// conceal hides this process's memory, environment and files in /proc from all but root, and
// keeps other processes of its user from tracing it.
func conceal() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// closeOnExecFrom keeps children from inheriting files that the worker itself inherited without
// the flag.
func closeOnExecFrom(first int) {
	if unix.CloseRange(uint(first), math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	closeOnExecListed(first, "/proc/self/fd")
}

// allGone reports whether no process of the agent is left, once this process has no more children:
// a subreaper then has no descendants either.
func allGone(int) bool { return true }

// killAll sends SIGKILL to every descendant. It returns how many may not be killed, and whether
// there are others.
func killAll(int) (refused int, others bool) {
	self, own := os.Getpid(), syscall.Getpgrp()
	var all []proc
	_ = eachProcess(func(p proc) {
		// A process that forks and ends at once would be gone when the list is complete.
		if p.ppid == self && !p.zombie {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		all = append(all, p)
	})
	groups := map[int]bool{own: true}
	for _, p := range descendants(all) {
		// A whole group at once, so that no member can fork away from it. All groups of this session but this
		// process's, and all of other sessions that a descendant has begun, have only descendants.
		if !groups[p.pgrp] {
			groups[p.pgrp] = true
			_ = syscall.Kill(-p.pgrp, syscall.SIGKILL)
		}
		if err := syscall.Kill(p.pid, syscall.SIGKILL); errors.Is(err, syscall.EPERM) {
			refused++
		} else if !p.zombie {
			others = true
		}
	}
	return refused, others
}

// killOrphans kills the processes of a guardian that died, and returns how many it could not
// kill. A subreaper finds all of them, any other program those in the guardian's session. That
// session's number is not used again while one of them is alive.
func killOrphans(guardian, _ int) (left int) {
	if strays.on.Load() {
		return strays.kill(2)
	}
	pause := sweepFirst
	for start := time.Now(); time.Since(start) < giveUpAfter; time.Sleep(pause) {
		left = 0
		all, err := processes()
		if err != nil {
			left = 1 // at least the agent may be alive
		}
		for _, p := range all {
			if p.session == guardian && !p.zombie {
				left++
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
		}
		if left == 0 {
			return 0
		}
		pause = min(2*pause, sweepMax)
	}
	return left
}

// lookForStrays must be called after every guardian's end.
func lookForStrays() { strays.searchSoon() }

type proc struct {
	pid, ppid, pgrp, session int

	zombie bool // its main thread ended; others may still run
}

// processes lists all processes. The list is not atomic, so callers repeat it.
func processes() (found []proc, err error) {
	err = eachProcess(func(p proc) { found = append(found, p) })
	return found, err
}

// eachProcess visits all processes, those with the highest pids first, which usually are the newest. It fails where no
// file can be opened: an agent can lower that limit of another process of its user.
func eachProcess(see func(proc)) error {
	dir, err := os.Open("/proc")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return err
		}
		if err != nil {
			continue // it ended
		}
		if p, ok := parseStat(pid, stat); ok {
			see(p)
		}
	}
	return nil
}

// descendants returns those of all processes that descend from this one, parents before their children.
func descendants(all []proc) (found []proc) {
	children := map[int][]proc{}
	for _, p := range all {
		children[p.ppid] = append(children[p.ppid], p)
	}
	next := []int{os.Getpid()}
	for len(next) > 0 {
		parent := next[0]
		next = next[1:]
		for _, p := range children[parent] {
			found = append(found, p)
			next = append(next, p.pid)
		}
		delete(children, parent)
	}
	return found
}

// parseStat reads /proc/PID/stat: "pid (name) state ppid pgrp session ...". The name may contain
// anything, so fields are counted from the last parenthesis.
func parseStat(pid int, stat []byte) (proc, bool) {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return proc{}, false
	}
	fields := bytes.Fields(stat[i+1:])
	if len(fields) < 4 {
		return proc{}, false
	}
	p := proc{pid: pid, zombie: fields[0][0] == 'Z'}
	for i, into := range []*int{&p.ppid, &p.pgrp, &p.session} {
		n, err := strconv.Atoi(string(fields[i+1]))
		if err != nil {
			return proc{}, false
		}
		*into = n
	}
	return p, true
}
