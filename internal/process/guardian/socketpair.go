//go:build unix

package guardian

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// SocketPair makes a pair of sockets that connects two processes. Unlike a pipe, a socket cannot
// be opened again through /proc/PID/fd by other processes of the user. The first end has
// deadlines, the second is to be inherited.
func SocketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock() // so that no process started now inherits them
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
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}
