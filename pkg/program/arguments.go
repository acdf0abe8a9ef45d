package program

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"turnstile/internal/program/config"
	"turnstile/internal/version"
)

const helpText = `%[1]s runs its agent for the messages of sessions, as a worker of Turnstile.
enqueue sends messages; worker ps, show, ls and the others are its operators' commands.

  %[1]s --dev    needs nothing else: it starts a Redis, and asynqmon on port 8080
  %[1]s          needs a Redis at REDIS_URL

SIGTERM, SIGINT or SIGHUP drains, a second one interrupts the running turns. Exit codes:
0, 1 for an error, 2 for a wrong setting or argument, 75 after SIGHUP.

Settings
  Each is an environment variable, or a flag: --concurrency 3 for TURNSTILE_CONCURRENCY=3,
  --redis URL for REDIS_URL. Other users of the machine can read flags: passwords belong in
  the environment.

`

// arguments are the program's command line.
type arguments struct {
	settings map[string]string // by variable
	dev      bool
	told     bool // it asked for the help or the version, which was printed
}

// usageError is the error of a wrong command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }
func (usageError) Unwrap() error   { return config.ErrInvalid }

// programName is how the program was called, without its directory.
func programName() string { return filepath.Base(os.Args[0]) }

// parse reads the command line. It writes the help and the version to out, and warnings to warn.
func parse(args []string, out, warn io.Writer) (a arguments, err error) {
	flags, name := pflag.NewFlagSet(programName(), pflag.ContinueOnError), programName()
	flags.SetOutput(io.Discard)
	flags.BoolVar(&a.dev, "dev", false, "")
	help, ver := flags.BoolP("help", "h", false, ""), flags.BoolP("version", "v", false, "")
	settings := config.ProgramSettings()
	config.AddFlags(flags, settings)
	err = flags.Parse(args)
	switch {
	case err != nil:
		return a, usageError{err.Error() + "; see " + name + " --help"}
	case *help:
		fmt.Fprintf(out, helpText, name)
		a.told = true
		return a, config.WriteHelp(out, settings)
	case *ver:
		_, err = fmt.Fprintln(out, name, version.String())
		a.told = true
		return a, err
	case flags.NArg() > 0:
		return a, usageError{fmt.Sprintf("unknown argument %q; see %s --help", flags.Arg(0), name)}
	}
	a.settings = config.Flagged(flags, settings)
	for variable, value := range a.settings {
		if warning := config.SecretFlag(config.FlagName(variable), variable, value); warning != "" {
			fmt.Fprintln(warn, name+": "+warning)
		}
	}
	return a, nil
}

// options are those of the settings.
func (a arguments) options() config.Options {
	o := config.Options{Overrides: a.settings, NoAgent: true}
	if a.dev {
		o.Defaults = config.DevDefaults()
		delete(o.Defaults, "TURNSTILE_LOG_LEVEL") // there is no console
	}
	return o
}
