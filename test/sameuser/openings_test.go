//go:build linux

package sameuser

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openings are the things that this process can open, read or take of another.
func openings(pid int) (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, name := range []string{"environ", "maps", "auxv"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err == nil && len(text) > 0 {
			add("%s is readable", name)
		}
		for _, variable := range bytes.Split(text, []byte{0}) {
			if bytes.Contains(variable, []byte(secret)) || bytes.HasPrefix(variable, []byte("REDIS_URL=")) {
				add("has %s", variable)
			}
		}
	}
	for _, name := range []string{"exe", "cwd", "root"} {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, name)); err == nil {
			add("%s is %s", name, to)
		}
	}
	if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err == nil {
		add("mem can be opened")
		_ = f.Close()
	}
	if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
		add("%d files are listed", len(files))
	}
	for fd := range 32 { // they may be readable without a list
		name := fmt.Sprintf("/proc/%d/fd/%d", pid, fd)
		for how, flag := range map[string]int{"reading": unix.O_RDONLY, "writing": unix.O_WRONLY} {
			if opened, err := unix.Open(name, flag|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
				add("file %d can be opened for %s", fd, how)
				_ = unix.Close(opened)
			}
		}
	}
	if pidfd, err := unix.PidfdOpen(pid, 0); err == nil {
		for fd := range 32 {
			if taken, err := unix.PidfdGetfd(pidfd, fd, 0); err == nil {
				add("file %d can be taken", fd)
				_ = unix.Close(taken)
			}
		}
		_ = unix.Close(pidfd)
	}
	if unix.PtraceSeize(pid) == nil {
		add("it can be traced")
		_ = unix.PtraceDetach(pid)
	}
	return found
}
