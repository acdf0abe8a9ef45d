//go:build unix && !linux

package guardian

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const clockID = unix.CLOCK_MONOTONIC

func agentAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// becomeSubreaper: there is no such thing here, the process group must do.
func becomeSubreaper() error { return nil }

func closeOnExecFrom(first int) { closeOnExecListed(first, "/dev/fd") }

// allGone reports whether the agent's process group has ended.
func allGone(pgid int) bool { return syscall.Kill(-pgid, 0) != nil }

// killAll sends SIGKILL to the agent's process group.
func killAll(pgid int) (refused int, others bool) {
	return 0, syscall.Kill(-pgid, syscall.SIGKILL) == nil
}

// killOrphans kills what a guardian that died left behind, if it had told the
// agent's process group.
func killOrphans(_, pgid int) {
	if pgid > 0 {
		_ = syscall.Kill(-pgid, syscall.SIGKILL)
	}
}
