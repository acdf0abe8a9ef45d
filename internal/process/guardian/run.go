//go:build unix

package guardian

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const (
	// leaseCheck bounds how late the end of a lease is seen after the machine
	// was suspended: timers stand still then.
	leaseCheck = time.Second

	sweepFirst = time.Millisecond
	sweepMax   = 50 * time.Millisecond

	// giveUpAfter is how long processes that may not be killed are waited for.
	giveUpAfter = 10 * time.Second
)

// The exit codes. Every other end is that of a guardian which was killed.
const (
	exitDone       = 0 // nothing of the agent is left, and the report says the rest
	exitNotStarted = 1
)

// run is a guardian's life. It answers the exit code.
func run() int {
	score := openOOMScore() // which belongs to root after the next line
	hidden := conceal()
	runtime.LockOSThread()
	closeOnExecFrom(channelFD)
	// A guardian ends when its agent has ended, not by a signal to everything in
	// a service or container. Caught signals, unlike ignored ones, are at their
	// default in the agent, even if the worker was started with SIGINT ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)

	channel := os.NewFile(channelFD, "worker")
	g := &watcher{status: json.NewEncoder(channel)}
	control := bufio.NewReader(channel)
	line, err := control.ReadBytes('\n')
	if err != nil {
		return exitNotStarted // the worker died first
	}
	if hidden != nil {
		return g.fail(hidden)
	}
	var l launch
	if err := json.Unmarshal(line, &l); err != nil {
		return g.fail(err)
	}
	if err := becomeSubreaper(); err != nil {
		return g.fail(err)
	}
	g.deadline = l.Deadline
	if g.leaseOver() {
		g.report.Lease = true
		g.finish()
		return exitDone
	}
	score.raised(func() {
		g.pid, err = syscall.ForkExec(string(l.Path), toStrings(l.Args), &syscall.ProcAttr{
			Dir: string(l.Dir), Env: toStrings(l.Env), Files: []uintptr{0, 1, 2}, Sys: agentAttr(),
		})
	})
	if err != nil {
		return g.fail(err)
	}
	// The agent's are its own. A held stdin would hide from the worker that
	// nobody reads it; stderr stays for this process's last words.
	_ = os.Stdin.Close()
	_ = os.Stdout.Close()

	g.tell(report{Pid: g.pid})
	g.watch(readOrders(control), reap())
	return exitDone
}

// readOrders closes its channel at the end of the worker's: the worker is dead.
func readOrders(control *bufio.Reader) <-chan order {
	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			line, err := control.ReadBytes('\n')
			if err != nil {
				return
			}
			var o order
			if json.Unmarshal(line, &o) != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}

type exit struct {
	pid    int
	status syscall.WaitStatus
}

// reap collects every child, adopted ones too, and closes its channel when there
// are none left.
func reap() <-chan exit {
	exits := make(chan exit)
	go func() {
		defer close(exits)
		for {
			var e exit
			var err error
			e.pid, err = syscall.Wait4(-1, &e.status, 0, nil)
			switch {
			case err == nil:
				exits <- e
			case !errors.Is(err, syscall.EINTR):
				return
			}
		}
	}()
	return exits
}

type watcher struct {
	status   *json.Encoder
	pid      int // the agent's main process, and its process group
	deadline int64
	report   report
}

// watch returns when nothing of the agent is left, and has reported it.
func (g *watcher) watch(orders <-chan order, exits <-chan exit) {
	lease := time.NewTimer(g.untilLeaseCheck())
	grace := stoppedTimer()
	sweep := stoppedTimer()
	pause := sweepFirst
	interrupted, killing, reaped := false, false, false
	var stuck time.Time

	kill := func(first time.Duration) {
		if !killing {
			killing = true
			if !reaped {
				_ = syscall.Kill(-g.pid, syscall.SIGKILL)
			}
			sweep.Reset(first)
		}
	}
	for {
		select {
		case o, alive := <-orders:
			switch {
			case !alive:
				orders = nil
				kill(0)
			case o.Kill:
				kill(0)
			case o.Interrupt != nil && !interrupted && !killing:
				interrupted = true
				_ = syscall.Kill(-g.pid, syscall.SIGINT)
				_ = syscall.Kill(-g.pid, syscall.SIGCONT)
				grace.Reset(time.Duration(*o.Interrupt) * time.Millisecond)
			case o.Unlease:
				g.deadline = 0
			case o.Deadline > g.deadline:
				g.deadline = o.Deadline
				lease.Reset(g.untilLeaseCheck())
			}

		case <-lease.C:
			if !killing && g.leaseOver() {
				g.report.Lease = true
				kill(0)
			}
			lease.Reset(g.untilLeaseCheck())

		case <-grace.C:
			kill(0)

		case e, more := <-exits:
			if !more {
				// Elsewhere than on Linux others of the group may live on.
				exits = nil
				kill(0)
				if allGone(g.pid) {
					g.finish()
					return
				}
				continue
			}
			if e.pid == g.pid {
				reaped = true
				g.report.Code = max(e.status.ExitStatus(), 0)
				if e.status.Signaled() {
					g.report.Signal = int(e.status.Signal())
				}
				// Mostly it was the only one: then exits ends now, and the
				// list of processes need not be read.
				kill(sweepFirst)
			}

		case <-sweep.C:
			refused, others := killAll(g.pid)
			if exits == nil && allGone(g.pid) {
				g.finish()
				return
			}
			if refused == 0 || others {
				stuck = time.Time{}
			} else if stuck.IsZero() {
				stuck = time.Now()
			} else if time.Since(stuck) > giveUpAfter {
				g.report.Left = refused
				g.finish()
				return
			}
			sweep.Reset(pause)
			pause = min(2*pause, sweepMax)
		}
	}
}

func (g *watcher) leaseOver() bool { return g.deadline != 0 && sharedClock() >= g.deadline }

func (g *watcher) untilLeaseCheck() time.Duration {
	if g.deadline == 0 {
		return time.Hour // the timer is set anew when one is told
	}
	return min(max(time.Duration(g.deadline-sharedClock()), 0), leaseCheck)
}

func (g *watcher) finish() {
	g.report.Done = true
	g.tell(g.report)
}

func (g *watcher) fail(err error) int {
	g.tell(report{Error: err.Error()})
	return exitNotStarted
}

// tell reports to the worker. It may be dead: the channel's end says so.
func (g *watcher) tell(r report) {
	if err := g.status.Encode(r); err != nil {
		return
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// closeOnExecListed sets the flag on every file from first on that a directory
// of the process's own files names.
func closeOnExecListed(first int, dir string) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
}
