package guardian

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CLOCK_BOOTTIME goes on while the machine is suspended, as Redis' clock does.
const clockID = unix.CLOCK_BOOTTIME

func agentAttr() *syscall.SysProcAttr {
	// Pdeathsig follows the thread that forks: run has locked it.
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// becomeSubreaper makes every orphan among the agent's descendants a child of
// this process.
func becomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// closeOnExecFrom keeps files from being inherited that the worker itself had
// inherited without the flag.
func closeOnExecFrom(first int) {
	if unix.CloseRange(uint(first), math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	closeOnExecListed(first, "/proc/self/fd")
}

// allGone reports whether nothing of the agent is left, given that this process
// has no more children: as a subreaper it then has no descendants either.
func allGone(int) bool { return true }

// killAll sends SIGKILL to every descendant and answers how many there are that
// may not be killed, and whether there are others.
func killAll(pgid int) (refused int, others bool) {
	for _, p := range descendants() {
		if p.pgrp == pgid {
			// At once for the whole group: no member can fork away from it.
			_ = syscall.Kill(-pgid, syscall.SIGKILL)
		}
		if err := syscall.Kill(p.pid, syscall.SIGKILL); errors.Is(err, syscall.EPERM) {
			refused++
		} else if !p.zombie {
			others = true
		}
	}
	return refused, others
}

// killOrphans kills what a guardian that died left behind: the processes of its
// session. The number stays taken while one of them is alive.
func killOrphans(guardian, _ int) {
	pause := sweepFirst
	for start := time.Now(); time.Since(start) < giveUpAfter; time.Sleep(pause) {
		alive := false
		for _, p := range processes() {
			if p.session == guardian && !p.zombie {
				alive = true
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
		}
		if !alive {
			return
		}
		pause = min(2*pause, sweepMax)
	}
}

type proc struct {
	pid, ppid, pgrp, session int

	zombie bool // its main thread has ended; others may still run
}

// processes lists all there are. It is no atomic picture: callers repeat it.
func processes() []proc {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	var found []proc
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if p, ok := parseStat(pid, stat); ok {
			found = append(found, p)
		}
	}
	return found
}

// descendants lists this process's, parents before their children.
func descendants() []proc {
	children := map[int][]proc{}
	for _, p := range processes() {
		children[p.ppid] = append(children[p.ppid], p)
	}
	var found []proc
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

// parseStat reads /proc/PID/stat: "pid (name) state ppid pgrp session ...". The
// name may contain anything, so fields count from the last parenthesis.
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
