// Command worker runs an agent for the messages of chat sessions, and has commands for operators.
package main

import (
	"context"
	"io"
	"os"

	"turnstile/internal/program/config"
	"turnstile/internal/program/operator"
	workerprogram "turnstile/pkg/program"
)

func main() {
	workerprogram.Init() // this binary is also the guardian of the agents that it starts
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// program is one run of the program.
type program struct{ *operator.Program }

// run is the whole program and returns the exit code. Cancelling ctx acts like a first SIGTERM.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := newProgram(environ, stdin)
	return p.Report(p.Run(ctx, args, stdout, stderr))
}

func newProgram(environ []string, stdin io.Reader) program {
	p := program{&operator.Program{Name: "worker", Help: helpText, Settings: config.WorkerSettings(), Environ: environ, Stdin: stdin, CheckAgents: checkNamed}}
	p.Work = p.work
	return p
}
