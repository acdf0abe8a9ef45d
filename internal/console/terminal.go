package console

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// IsTerminal tells whether a reader or writer is one.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Listens tells whether somebody can type into stream: it is a terminal, and
// this program is not in the background of its shell. Should it be sent there
// later, reads from the terminal fail instead of stopping the program.
func Listens(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false
	}
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() {
		return false
	}
	signal.Ignore(syscall.SIGTTIN)
	return true
}
