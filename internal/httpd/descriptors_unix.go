//go:build unix

package httpd

import "syscall"

// descriptors is how many file descriptors the process may have.
func descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return descriptorsMost
	}
	return int(min(limit.Cur, descriptorsMost))
}
