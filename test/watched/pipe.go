package watched

import (
	"os"
	"syscall"
	"testing"
)

// FullPipe returns the ends of a pipe that is full, as one with a reader that does not read.
func FullPipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	raw, err := w.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			page := make([]byte, os.Getpagesize())
			for {
				if _, err := syscall.Write(int(fd), page); err != nil {
					break // EAGAIN
				}
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Fd() // programs get it in blocking mode
	return r, w
}
