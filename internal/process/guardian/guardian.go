// Package guardian sees to it that no process of an agent outlives its turn.
//
// An agent is started by a guardian: the program's own binary, executed again
// as a small process between the worker and the agent, in a session (setsid) of
// its own. The agent inherits its stdin, stdout and stderr directly, so the
// guardian is not in the way of data. It watches one channel to its worker and
// kills the agent's whole process group
//
//   - when the worker says so, at once or after an interrupt and a grace;
//   - when the channel closes: the worker is dead;
//   - when the lease on the session runs out unrenewed: the worker is stopped
//     or cut off, and another may start the next turn;
//   - when the agent's main process has ended: what it left behind goes too.
//
// On Linux the guardian is also a subreaper, so every descendant of the agent is
// found and killed, those that forked twice or called setsid too, and it reaps
// them all before it reports. Elsewhere it reaches the process group only.
//
// An agent has the user id of its guardian, and is not trusted. On Linux the
// guardian is not dumpable: the agent can neither trace it nor open its files
// and memory in /proc. The channel is a socket, which /proc cannot open again.
// The worker believes a report only if the guardian then exits by itself. A
// guardian that was killed, by the agent for example, reports nothing: its
// agent's main process dies with it, and the worker kills the rest. A program
// that called InitWorker is a subreaper and finds every descendant; any other
// finds those that stayed in the guardian's session. A guardian that is stopped
// over and over is killed some seconds after it had to end its agent.
//
// What it does not guarantee. It is a safety net and not a sandbox.
//
//   - An agent may kill the worker and its guardian both. What had left the
//     agent's own process then survives, unless a container ends with its worker.
//     An agent that stops both survives its lease.
//   - exec makes a process dumpable, until some milliseconds later Init is called.
//     A process of the user that waits for it can get in then. A binary that the
//     user cannot read, as one of mode 0711 owned by root, is never dumpable.
//   - Between two agents of one user little is closed: one may kill the other, trace
//     it, read its environment and write into its pipes.
//   - A process of another user (sudo) cannot be killed.
//   - Processes that fork faster than they can be listed may evade it for a while.
//   - On other systems than Linux a guardian's death leaves all but the agent's
//     process group behind, and what others of the user may do to a process is
//     the system's affair.
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

// channelFD is the guardian's inherited file beside the agent's three. Its end
// means that the worker died.
const channelFD = 3

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

// InitWorker is Init for a program that does nothing but run a worker. It also
// conceals the process as a guardian does, and on Linux makes it the subreaper
// of what it starts: it kills every process that becomes its child without
// having been started by it and that is in another session.
func InitWorker() {
	Init()
	// Where it is forbidden no guardian can start its agent either, and says so.
	_ = conceal()
	adopt()
}

// Conceal does no more than to conceal this process as a guardian is, for a program that has
// secrets in its environment and may run beside agents of its user.
func Conceal() { _ = conceal() }

// Ready reports whether Init was called, that is whether Start can work.
func Ready() bool { return initialised.Load() }
