package daemon

import (
	"os"
	"os/signal"
	"slices"
)

// Heeded returns those signals that were not ignored when this process started. The others stay
// ignored: SIGHUP after nohup, SIGINT in the background of a script. SIGTERM is never among them: Go
// heeds all but these two.
func Heeded(signals ...os.Signal) []os.Signal { return slices.DeleteFunc(signals, signal.Ignored) }
