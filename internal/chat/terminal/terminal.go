package terminal

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/rivo/uniseg"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// file is an os.File, or a writer to one.
type file interface{ Fd() uintptr }

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(file)
	return ok && term.IsTerminal(int(f.Fd()))
}

// fitting truncates a text to one line of a terminal, without the last column, after which some
// terminals wrap at once.
func fitting(stream any, text string) string {
	f, ok := stream.(file)
	if !ok {
		return text
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 2 {
		return text
	}
	fits, rest, state, taken := 0, text, -1, 0
	for rest != "" {
		var cluster string
		var wide int
		cluster, rest, wide, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if taken += wide; taken >= width {
			return text[:fits]
		}
		fits += len(cluster)
	}
	return text
}

// Listens reports whether somebody can type into stream: it is a terminal, and this program is
// not in the background of its shell. If the program is sent to the background later, reads from
// the terminal fail instead of stopping it.
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
