package program

import (
	"os"
	"path/filepath"

	"turnstile/internal/program/config"
)

const helpText = `%[1]s runs its agent for the messages of sessions, as a worker of Turnstile, and has
commands for operators. enqueue sends messages.

  %[1]s --dev    needs nothing else: it starts a Redis, and asynqmon on port 8080
  %[1]s          needs a Redis at REDIS_URL

SIGTERM, SIGINT or SIGHUP drains, a second one interrupts the running turns. Exit codes:
0, 1 for an error, 2 for a wrong setting or argument, 75 after SIGHUP; forget: 3 if a turn
runs or outcomes are undelivered; 130 after Ctrl-C in show --follow or forget --sender.`

// arguments are the program's command line.
type arguments struct {
	settings map[string]string // by variable
	dev      bool
}

// programName is how the program was called, without its directory.
func programName() string { return filepath.Base(os.Args[0]) }

// ownAgent is the kind of the program's agent: two programs differ, see package agreement.
func ownAgent() config.AgentKind { return config.AgentKind("go:" + programName()) }

// options are those of the settings.
func (a arguments) options() config.Options {
	o := config.Options{Overrides: a.settings, NoAgent: true}
	if a.dev {
		o.Defaults = config.DevDefaults()
		delete(o.Defaults, "TURNSTILE_LOG_LEVEL") // there is no console
	}
	return o
}
