// Command step-agent is a worker with an agent that charges a card: once, even if the worker is killed. The
// agent is in till.go, and this file runs it. See README.md.
package main

import (
	"cmp"
	"context"
	"os"

	"turnstile/pkg/program"
)

func main() {
	program.Init()
	program.Exit(program.Run(context.Background(), till{payments: cmp.Or(os.Getenv("PAYMENTS_URL"), "http://127.0.0.1:8099")}))
}
