// Package operator has the command line of a program that runs turns: its flags, its help, and the commands for operators. The
// program worker and the programs with a Go agent have the same.
package operator

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"turnstile/internal/program/config"
	"turnstile/internal/program/daemon"
	"turnstile/internal/program/service"
	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// The exit codes.
const (
	ExitOK      = 0 // also after a drain
	ExitOther   = 1
	ExitUsage   = 2  // invalid settings, flags or arguments
	ExitRefused = 3  // a turn is running in the session
	ExitRestart = 75 // after the drain of a restart: EX_TEMPFAIL

	ExitInterrupted = 130 // Ctrl-C ended show --follow or forget --sender
)

// Program is one run of a program. The first fields are the caller's.
type Program struct {
	Name     string // of the program, in texts
	Help     string
	Settings []config.Setting // of the program without a command
	Environ  []string
	Stdin    io.Reader

	// Work is the program without a command, until ctx ends.
	Work func(ctx context.Context, flags map[string]string, dev bool) error

	// Agent is the program's own agent, which may run programs. "": it runs that of TURNSTILE_AGENT.
	Agent config.AgentKind

	// CheckAgents checks the agents of TURNSTILE_AGENTS_FILE. nil: the program has none, and no command agents.
	CheckAgents func(config.Worker) error

	Out, ErrOut *daemon.Output // stdout and stderr of a command that serves

	// Text for a person is made printable before it is written here. Screens, JSON and the log
	// escape it themselves, and use the raw streams.
	stdout, stderr io.Writer
	Raw            Streams

	called bool // flags and arguments were valid
}

// Streams are the program's stdout and stderr.
type Streams struct{ Stdout, Stderr io.Writer }

// Run runs the program or its command. Cancelling ctx acts like a first SIGTERM.
func (p *Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	p.Raw, p.Out, p.ErrOut = Streams{stdout, stderr}, daemon.NewOutput(stdout), daemon.NewOutput(stderr)
	cmd := p.Command()
	if serves(cmd, args) {
		p.Raw = Streams{p.Out, p.ErrOut}
	}
	p.stdout, p.stderr = printable.NewWriter(p.Raw.Stdout), printable.NewWriter(p.Raw.Stderr)
	cmd.SetArgs(append([]string{}, args...)) // nil would mean the process's own arguments
	cmd.SetIn(p.Stdin)
	cmd.SetOut(printable.NewWriter(stdout)) // help is for a pager, too
	cmd.SetErr(p.stderr)
	called, err := cmd.ExecuteContextC(ctx)
	if called.Name() == "help" {
		called = cmd
	}
	daemon.Flush(daemon.LastWords, p.Out, p.ErrOut)
	if err == nil {
		return nil
	}
	return p.failed(err, called.CommandPath())
}

// serves reports whether the command runs until a signal, or has flags that are wrong for that. Then
// nothing waits for a reader. Other commands do: their output is what they are for.
func serves(root *cobra.Command, args []string) bool {
	c, _, _ := root.Find(args) // the root if there is no such command
	return c == root || c.Name() == "dashboard"
}

// failure is why a command failed, one problem a line.
type failure struct {
	error
	text string
	code int
}

func (f failure) Error() string { return f.text }
func (f failure) Unwrap() error { return f.error }

// Report prints the error of Run, and returns the exit code.
func (p *Program) Report(err error) int {
	if err != nil && !errors.Is(err, service.ErrRestart) {
		for line := range strings.Lines(err.Error()) {
			p.Complain(strings.TrimSpace(line))
		}
		daemon.Flush(daemon.LastWords, p.ErrOut)
	}
	return ExitCode(err)
}

// ExitCode returns the exit code for an error of Run.
func ExitCode(err error) int {
	var f failure
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &f):
		return f.code
	}
	return ExitOther
}

func (p *Program) failed(err error, command string) failure {
	f := failure{err, printable.Line(err.Error()), ExitUsage}
	switch {
	case errors.Is(err, service.ErrRestart):
		f.code = ExitRestart
	case !p.called:
		see := "; see "
		if strings.HasSuffix(err.Error(), "?") {
			see = " See "
		}
		f.error, f.text = errors.Join(err, config.ErrInvalid), f.text+see+command+" --help"
	case errors.Is(err, config.ErrInvalid):
		f.text = err.Error()
	case errors.Is(err, session.ErrInvalid):
	case errors.Is(err, errNotErased):
		f.code = ExitRefused
	case errors.Is(err, errInterrupted), errors.Is(err, errForgetInterrupt):
		f.code = ExitInterrupted
	case errors.Is(err, session.ErrBusy):
		f.text, f.code = "refused: "+f.text+"; say /stop first, or wait. Nothing was deleted", ExitRefused
	case errors.Is(err, session.ErrUndelivered):
		f.text, f.code = "refused: "+f.text+"; wait until they are, or add --undelivered. Nothing was deleted", ExitRefused
	default:
		f.text, f.code = strings.Join(strings.Fields(err.Error()), " "), ExitOther
	}
	return f
}
