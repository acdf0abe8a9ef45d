package daemon

import (
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Heeded returns those signals that were not ignored when this process started. The others stay
// ignored: SIGHUP after nohup, SIGINT in the background of a script. SIGTERM is never among them: Go
// heeds all but these two.
func Heeded(signals ...os.Signal) []os.Signal { return slices.DeleteFunc(signals, signal.Ignored) }

// OutliveReaders keeps this process alive when nobody reads its output any more. In `worker 2>&1 | tee log`
// Ctrl-C ends tee, too, and the next line of the log would kill the worker with SIGPIPE, in the middle of
// its drain. That holds until the process ends, because the last lines come after everything else. Agents
// do not inherit it.
func OutliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// LimitMemory has the garbage collector keep the process below its container's memory (cgroup v1 or v2), at
// 90 % of it. GOMEMLIMIT in the environment takes precedence.
func LimitMemory(log *slog.Logger) {
	if _, err := memlimit.Set(); err != nil {
		log.Debug("the container's memory is unknown: GOMEMLIMIT is not set", "error", err)
	}
}
