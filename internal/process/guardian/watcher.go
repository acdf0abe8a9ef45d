//go:build unix

package guardian

import (
	"encoding/json"
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

// watcher is a guardian that watches its agent.
type watcher struct {
	status   *json.Encoder
	pid      int // the agent's main process, and its process group
	deadline int64
	report   report
	cleanUp  func() int // runs the agent's Kill

	lease, grace, sweep *time.Timer
	pause               time.Duration // between sweeps; it grows

	interrupted bool
	killing     bool      // the agent must end
	reaped      bool      // its main process was reaped
	stuck       time.Time // since when all remaining processes may not be killed; zero: not so
}

// watch returns when no process of the agent is left and it has reported that.
func (g *watcher) watch(orders <-chan order, exits <-chan exit) {
	g.lease, g.grace, g.sweep = time.NewTimer(g.untilLeaseCheck()), stoppedTimer(), stoppedTimer()
	g.pause = sweepFirst
	for {
		select {
		case o, alive := <-orders:
			if alive {
				g.obey(o)
			} else {
				orders = nil
				g.kill(0)
			}
		case <-g.lease.C:
			if !g.killing && g.leaseOver() {
				g.report.Lease = true
				g.kill(0)
			}
			g.lease.Reset(g.untilLeaseCheck())
		case <-g.grace.C:
			g.kill(0)
		case e, more := <-exits:
			if more {
				g.exited(e)
				continue
			}
			// On other systems than Linux, others of the group may live on.
			exits = nil
			g.kill(0)
			if allGone(g.pid) {
				g.finish()
				return
			}
		case <-g.sweep.C:
			if g.sweepOnce(exits == nil) {
				g.finish()
				return
			}
		}
	}
}

func (g *watcher) obey(o order) {
	switch {
	case o.Kill:
		g.kill(0)
	case o.Interrupt != nil && !g.interrupted && !g.killing:
		g.interrupted = true
		_ = syscall.Kill(-g.pid, syscall.SIGINT)
		_ = syscall.Kill(-g.pid, syscall.SIGCONT)
		g.grace.Reset(time.Duration(*o.Interrupt) * time.Millisecond)
	case o.Unlease:
		g.deadline = 0
	case o.Deadline > g.deadline:
		g.deadline = o.Deadline
		g.lease.Reset(g.untilLeaseCheck())
	}
}

// exited records the end of a child.
func (g *watcher) exited(e exit) {
	if e.pid != g.pid {
		return
	}
	g.reaped = true
	g.report.Code = max(e.status.ExitStatus(), 0)
	if e.status.Signaled() {
		g.report.Signal = int(e.status.Signal())
	}
	// Usually it was the only process: then exits ends now, and the list of processes need not
	// be read.
	g.kill(sweepFirst)
}

// kill kills the process group, and begins to sweep after first. It does so once.
func (g *watcher) kill(first time.Duration) {
	if g.killing {
		return
	}
	g.killing = true
	if !g.reaped {
		_ = syscall.Kill(-g.pid, syscall.SIGKILL)
	}
	g.sweep.Reset(first)
}

// sweepOnce kills the remaining processes. It returns true if there are none, or only some that
// could not be killed for giveUpAfter.
func (g *watcher) sweepOnce(childless bool) (over bool) {
	refused, others := killAll(g.pid)
	if childless && allGone(g.pid) {
		return true
	}
	switch {
	case refused == 0 || others:
		g.stuck = time.Time{}
	case g.stuck.IsZero():
		g.stuck = time.Now()
	case time.Since(g.stuck) > giveUpAfter:
		g.report.Left = refused
		return true
	}
	g.sweep.Reset(g.pause)
	g.pause = min(2*g.pause, sweepMax)
	return false
}

func (g *watcher) leaseOver() bool { return g.deadline != 0 && sharedClock() >= g.deadline }

func (g *watcher) untilLeaseCheck() time.Duration {
	if g.deadline == 0 {
		return time.Hour // the timer is reset when a deadline arrives
	}
	return min(max(time.Duration(g.deadline-sharedClock()), 0), leaseCheck)
}

func (g *watcher) finish() {
	if g.pid != 0 {
		g.report.Left += g.cleanUp()
	}
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
