// Command custom-agent is a worker with a custom agent, written in Go: a to-do list for each
// session. The agent is in todo.go, and this file runs it. See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"turnstile/pkg/program"
)

func main() {
	program.Init()
	err := program.Run(context.Background(), todoAgent{pause: 30 * time.Millisecond})
	if err != nil {
		fmt.Fprintln(os.Stderr, "custom-agent:", err)
	}
	os.Exit(program.ExitCode(err))
}
