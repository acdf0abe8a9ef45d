// Package guardian makes sure that no process of an agent outlives its turn.
//
// An agent is started by a guardian: the program's own binary, executed again as a small process
// between the worker and the agent, in a new session (setsid). The agent inherits its stdin, stdout
// and stderr directly, so no data passes through the guardian. The guardian watches one channel to
// its worker and kills the agent's whole process group
//
//   - when the worker requests it, at once or after an interrupt and a grace;
//   - when the channel closes: the worker is dead;
//   - when the lease on the session ends without a renewal: the worker is stopped or has
//     lost its connection, and another may start the next turn;
//   - when the agent's main process ends: its children must end too.
//
// On Linux the guardian is also a subreaper. It finds and kills every descendant of the agent,
// also those that forked twice or called setsid, and reaps them all before it reports. On other
// systems it reaches only the process group.
//
// An agent has the user ID of its guardian, and is not trusted. On Linux the guardian is not
// dumpable: the agent can neither trace it nor open its files and memory in /proc. The channel is
// a socket, which cannot be opened again through /proc. The worker believes a report only if the
// guardian then exits by itself. A guardian that was killed, for example by the agent, reports
// nothing: its agent's main process dies with it, and the worker kills the rest. A program that
// called InitWorker is a subreaper and finds every descendant; any other program finds those that
// stayed in the guardian's session. A guardian that is stopped again and again is killed some
// seconds after it had to end its agent.
//
// It is a safety net and not a sandbox. These limits remain:
//
//   - An agent may kill both the worker and its guardian. Then only its main process is sure to
//     die, unless they run in a container that ends with its worker. An agent that stops both
//     survives the end of its lease.
//   - exec makes a process dumpable until Init is called, some milliseconds later. A waiting
//     process of the same user can use that moment. A binary that the user cannot read, such as one
//     of mode 0711 owned by root, is never dumpable.
//   - Agents of one user have little protection from each other: one may kill another, trace it,
//     read its environment and write into its pipes.
//   - A process of another user (sudo) cannot be killed.
//   - Processes that fork faster than they can be listed may escape for a while.
//   - On systems other than Linux, processes outside the agent's process group survive the
//     guardian's death, and the system decides which access other processes of the user have to it.
package guardian

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
)

// ErrNoInit is returned by Start in a program that did not call Init.
var ErrNoInit = errors.New("guardian: Init was not called: call it first thing in main (in tests: in TestMain)")

// Both must be set for a process to become a guardian, so that neither a stray variable nor a
// renamed binary can make it one.
const (
	argv0  = "turnstile-guardian"
	envVar = "TURNSTILE_GUARDIAN"
)

// channelFD is the file of the channel in the guardian, after the agent's three files. The
// channel ends when the worker dies.
const channelFD = 3

var initialised atomic.Bool

// Init must be called first in main, and in TestMain of tests that start agents. In a process
// that was started as a guardian it does the guardian's work and exits; in any other it returns
// at once.
func Init() {
	if len(os.Args) > 0 && os.Args[0] == argv0 && os.Getenv(envVar) == "1" {
		// Not os.Exit, where a coverage or race build writes a warning to the agent's stderr and
		// sleeps for a second.
		syscall.Exit(run())
	}
	initialised.Store(true)
}

// InitWorker is Init for a program that only runs a worker. It also conceals the process as Conceal
// does, and on Linux makes it the subreaper of its descendants. It then kills every process in
// another session that becomes its child without being started by it.
func InitWorker() {
	Init()
	// Where this is forbidden, guardians cannot start agents either, and report it.
	_ = conceal()
	adopt()
}

// Conceal only hides this process from others of its user, as a guardian is hidden. It is for
// programs with secrets in their environment that may run next to agents of the same user.
func Conceal() { _ = conceal() }

// Ready reports whether Init was called, so that Start can work.
func Ready() bool { return initialised.Load() }
