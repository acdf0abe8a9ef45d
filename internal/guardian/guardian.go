// Package guardian sees to it that no process of an agent outlives its turn.
//
// An agent is started by a guardian: the program's own binary, executed again
// as a small process between the worker and the agent, in a session (setsid) of
// its own. The agent inherits its stdin, stdout and stderr directly, so the
// guardian is not in the way of data. It watches one pipe to its worker and
// kills the agent's whole process group
//
//   - when the worker says so, at once or after an interrupt and a grace;
//   - when the pipe closes: the worker is dead;
//   - when the lease on the session runs out unrenewed: the worker is stopped
//     or cut off, and another may start the next turn;
//   - when the agent's main process has ended: what it left behind goes too.
//
// On Linux the guardian is also a subreaper, so every descendant of the agent is
// found and killed, those that forked twice or called setsid too, and it reaps
// them all before it reports. Elsewhere it reaches the process group only.
//
// What it does not guarantee. It is a safety net and not a sandbox: an agent has
// the user id of its guardian and could kill or stop it. If the guardian alone
// is killed with SIGKILL, then on Linux the agent's main process dies with it,
// and the worker kills the rest of its session; descendants that left the session
// are missed. A process of another user (sudo) cannot be killed. Processes that fork into
// new sessions faster than they can be listed may evade it for a while.
package guardian

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
)

// ErrNoInit is returned by Start in a program that did not call Init.
var ErrNoInit = errors.New("guardian: Init was not called: call it first thing in main (in tests: in TestMain)")

// Both must be there for a process to become a guardian, so that neither a
// stray variable nor a renamed binary can make it one.
const (
	argv0  = "turnstile-guardian"
	envVar = "TURNSTILE_GUARDIAN"
)

// The guardian's inherited files beside the agent's three.
const (
	controlFD = 3 // orders from the worker; its end means that the worker died
	statusFD  = 4 // reports to the worker
)

var initialised atomic.Bool

// Init must be called first thing in main, and in TestMain of tests that start
// agents. In a process that was started as a guardian it does the guardian's
// work and exits; in any other it returns at once.
func Init() {
	if len(os.Args) > 0 && os.Args[0] == argv0 && os.Getenv(envVar) == "1" {
		// Not os.Exit: what a coverage or race build does there (a warning on
		// the agent's stderr, a second's sleep) is not for a guardian.
		syscall.Exit(run())
	}
	initialised.Store(true)
}

// Ready reports whether Init was called, that is whether Start can work.
func Ready() bool { return initialised.Load() }
