//go:build unix && !linux

package guardian

import (
	"log/slog"
	"syscall"

	"golang.org/x/sys/unix"
)

const clockID = unix.CLOCK_MONOTONIC

func agentAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// becomeSubreaper does nothing: this system has no subreapers, only the process group.
func becomeSubreaper() error { return nil }

// conceal does nothing: there is no /proc, and the system decides who may trace a process.
func conceal() error { return nil }

// adopt does nothing: this system has no subreapers.
func adopt() {}

// LogTo does nothing: only Linux has strays to log.
func LogTo(*slog.Logger) {}

func prepareForStrays() {}

func lookForStrays() {}

func openOOMScore() oomScore { return oomScore{} }

// oomScore does nothing: only Linux has the score.
type oomScore struct{}

func (oomScore) raised(start func()) { start() }

// CheckOOM returns nil: this system has no score.
func CheckOOM() error { return nil }

func closeOnExecFrom(first int) { closeOnExecListed(first, "/dev/fd") }

// allGone reports whether the agent's process group is gone.
func allGone(pgid int) bool { return syscall.Kill(-pgid, 0) != nil }

// killAll sends SIGKILL to the agent's process group.
func killAll(pgid int) (refused int, others bool) {
	return 0, syscall.Kill(-pgid, syscall.SIGKILL) == nil
}

// killOrphans kills the agent's process group after its guardian died, if the guardian had
// reported it.
func killOrphans(_, pgid int) (left int) {
	if pgid > 1 { // -1 would be every process
		_ = syscall.Kill(-pgid, syscall.SIGKILL)
	}
	return 0
}
