// Command custom-agent is a worker with a custom agent, written in Go: a to-do list for each
// session. The agent is in todo.go, and this file runs it. See README.md.
package main

import (
	"context"
	"time"

	"turnstile/pkg/program"
)

func main() {
	program.Init()
	program.Exit(program.Run(context.Background(), todoAgent{pause: 30 * time.Millisecond}))
}
