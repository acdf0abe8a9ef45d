// Package confine is the launcher of confined programs: this program's own binary, executed between
// the guardian and an agent's program. It limits itself and then becomes the program, which keeps
// the limits, as all its children do. Nothing lifts them. Where the binary is unreadable, programs
// that are not confined have a launcher, too: it raises their score (guardian.RaiseOOMScore).
//
// Landlock limits files, signals, abstract unix sockets, tracing and TCP. A short filter of system
// calls closes what Landlock leaves open: ways to connect with TCP that it does not see, and the
// limits of other processes (prlimit).
package confine

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"turnstile/internal/process/command"
	"turnstile/internal/process/guardian"
)

// Init must be called first in main. In a launcher it does not return.
func Init() {
	if len(os.Args) > 3 && os.Args[0] == command.Launcher {
		guardian.Launch(func() error {
			how := map[bool]string{true: " confined"}[os.Args[1] != "null"]
			return fmt.Errorf("could not start the program%s: %w", how, launch(os.Args[1], os.Args[2], os.Args[3:]))
		})
		syscall.Exit(1)
	}
	command.HasLauncher.Store(true)
}

// errUnsupported is wrapped by errors about what this system cannot do.
var errUnsupported = errors.New("this system cannot confine agents")
