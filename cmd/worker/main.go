// Command worker runs an agent for the messages of chat sessions, and has commands for operators.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"turnstile/internal/program/config"
	"turnstile/internal/program/daemon"
	"turnstile/internal/program/service"
	"turnstile/internal/text/printable"
	workerprogram "turnstile/pkg/program"
	"turnstile/pkg/session"
)

func main() {
	workerprogram.Init() // this binary is also the guardian of the agents that it starts
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// The exit codes.
const (
	exitOK      = 0 // also after a drain
	exitOther   = 1
	exitUsage   = 2  // invalid settings, flags or arguments
	exitRefused = 3  // a turn is running in the session
	exitRestart = 75 // after the drain of a restart: EX_TEMPFAIL

	exitInterrupted = 130 // Ctrl-C ended show --follow or forget --sender
)

// run is the whole program and returns the exit code. Cancelling ctx acts like a first SIGTERM.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{environ: environ, stdin: stdin, raw: streams{stdout, stderr}, out: daemon.NewOutput(stdout), errOut: daemon.NewOutput(stderr)}
	cmd := p.command()
	if serves(cmd, args) {
		p.raw = streams{p.out, p.errOut}
	}
	p.stdout, p.stderr = printable.NewWriter(p.raw.stdout), printable.NewWriter(p.raw.stderr)
	cmd.SetArgs(append([]string{}, args...)) // nil would mean the process's own arguments
	cmd.SetIn(stdin)
	cmd.SetOut(printable.NewWriter(stdout)) // help is for a pager, too
	cmd.SetErr(p.stderr)
	called, err := cmd.ExecuteContextC(ctx)
	if called.Name() == "help" {
		called = cmd
	}
	defer daemon.Flush(daemon.LastWords, p.out, p.errOut)
	if err != nil {
		daemon.Flush(daemon.LastWords, p.errOut) // makes room for the error
	}
	return p.report(err, called.CommandPath())
}

// serves reports whether the command runs until a signal, or has flags that are wrong for that. Then
// nothing waits for a reader. Other commands do: their output is what they are for.
func serves(root *cobra.Command, args []string) bool {
	c, _, _ := root.Find(args) // the root if there is no such command
	return c == root || c.Name() == "dashboard"
}

// program is one run of the program.
type program struct {
	environ []string
	stdin   io.Reader

	out, errOut *daemon.Output // stdout and stderr of a command that serves

	// Text for a person is made printable before it is written here. Screens, JSON and the log
	// escape it themselves, and use the raw streams.
	stdout, stderr io.Writer
	raw            streams

	called bool // flags and arguments were valid
}

// report prints why a command failed, one problem a line, and returns the exit code.
func (p *program) report(err error, command string) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, service.ErrRestart):
		return exitRestart
	case !p.called:
		see := "; see "
		if strings.HasSuffix(err.Error(), "?") {
			see = " See "
		}
		p.complain(err.Error() + see + command + " --help")
	case errors.Is(err, config.ErrInvalid):
		for line := range strings.Lines(err.Error()) {
			p.complain(strings.TrimSpace(line))
		}
	case errors.Is(err, session.ErrInvalid):
		p.complain(err.Error())
	case errors.Is(err, errNotErased):
		p.complain(err.Error())
		return exitRefused
	case errors.Is(err, errInterrupted), errors.Is(err, errForgetInterrupt):
		p.complain(err.Error())
		return exitInterrupted
	case errors.Is(err, session.ErrBusy):
		p.complain("refused: " + err.Error() + "; say /stop first, or wait. Nothing was deleted")
		return exitRefused
	case errors.Is(err, session.ErrUndelivered):
		p.complain("refused: " + err.Error() + "; wait until they are, or add --undelivered. Nothing was deleted")
		return exitRefused
	default:
		p.complain(strings.Join(strings.Fields(err.Error()), " "))
		return exitOther
	}
	return exitUsage
}

// streams are the program's stdout and stderr.
type streams struct{ stdout, stderr io.Writer }
