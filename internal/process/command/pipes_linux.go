package command

import (
	"os"
	"syscall"
)

const setPipeSize = 1031 // F_SETPIPE_SZ of <linux/fcntl.h>, which package syscall lacks

// widen enlarges a pipe to hold size bytes. The system may refuse, because a user's pipes have a
// limit together; then the pipe stays as it is.
func widen(pipe *os.File, size int) {
	conn, err := pipe.SyscallConn() // not Fd, which would make it blocking
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, uintptr(size))
	})
}
