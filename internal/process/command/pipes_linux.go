package command

import (
	"os"
	"syscall"
)

const setPipeSize = 1031 // F_SETPIPE_SZ of <linux/fcntl.h>, which package syscall lacks

// widen lets a pipe hold so many bytes. It may not: a user's pipes are limited in
// all, and then it stays as it is.
func widen(pipe *os.File, size int) {
	conn, err := pipe.SyscallConn() // not Fd, which would make it a blocking one
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, uintptr(size))
	})
}
