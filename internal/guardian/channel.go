//go:build unix

package guardian

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// channel connects the worker and a guardian: orders go one way, reports the
// other. It is a pair of sockets and not of pipes, because a pipe can be opened
// again through /proc/PID/fd by whoever may look there, and a socket cannot.
func channel() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock() // no process is started that would inherit them
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err == nil {
		err = unix.SetNonblock(fds[0], true) // so that it has deadlines
	}
	if err != nil {
		return nil, nil, fmt.Errorf("guardian: make a channel: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "guardian"), os.NewFile(uintptr(fds[1]), "worker"), nil
}
