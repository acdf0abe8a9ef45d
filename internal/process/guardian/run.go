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
	// leaseCheck bounds how late the end of a lease is noticed after the machine was suspended,
	// because timers stand still then.
	leaseCheck = time.Second

	sweepFirst = time.Millisecond
	sweepMax   = 50 * time.Millisecond

	// giveUpAfter is how long the guardian waits for processes that it may not kill.
	giveUpAfter = 10 * time.Second
)

// The exit codes. Any other means that the guardian was killed.
const (
	exitDone       = 0 // nothing of the agent is left, and the report says the rest
	exitNotStarted = 1
)

// run is a guardian's whole life. It returns the exit code.
func run() int {
	score := openOOMScore() // before conceal: then the file belongs to root
	hidden := conceal()
	runtime.LockOSThread()
	closeOnExecFrom(channelFD)
	// A guardian must end when its agent has ended, not by a signal to all processes of a service
	// or container. Signals that are caught, unlike ignored ones, have their default action in
	// the agent, even if the worker was started with SIGINT ignored.
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
	// The agent has its own copies. If this process kept stdin open, the worker would not notice
	// that nobody reads it. stderr stays open for this process's errors.
	_ = os.Stdin.Close()
	_ = os.Stdout.Close()

	g.send(report{Pid: g.pid})
	g.watch(readOrders(control), reap())
	return exitDone
}

// readOrders closes its channel when the worker's channel ends: the worker is dead.
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

// reap collects every child, adopted ones included, and closes its channel when none are left.
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

// watch returns after nothing of the agent is left and it has reported that.
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
				// On other systems than Linux, others of the group may live on.
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
				// Usually it was the only process: then exits ends now, and the list of processes
				// need not be read.
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
		return time.Hour // the timer is reset when a deadline arrives
	}
	return min(max(time.Duration(g.deadline-sharedClock()), 0), leaseCheck)
}

func (g *watcher) finish() {
	g.report.Done = true
	g.send(g.report)
}

func (g *watcher) fail(err error) int {
	g.send(report{Error: err.Error()})
	return exitNotStarted
}

// send sends a report to the worker. If the worker is dead, the end of the channel shows it.
func (g *watcher) send(r report) {
	if err := g.status.Encode(r); err != nil {
		return
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// closeOnExecListed sets the flag on every file from first on in dir, which lists the process's
// own files.
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
