// Command agent is the agents of package kills: `agent worker` is a worker with a Go agent, `agent jsonl` a command
// of the agent exec, and `agent tool N` a tool of model.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"turnstile/pkg/program"
	"turnstile/test/kills"
)

func main() {
	program.Init()
	var err error
	switch ctx := context.Background(); os.Args[1] {
	case "worker":
		os.Args = os.Args[:1] // Run reads the rest
		err = program.Run(ctx, stepper{kills.Here()})
	case "jsonl":
		err = newCommand(kills.Here()).run(ctx)
	case "tool":
		err = tool(ctx, kills.Here(), os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// tool reads the model's arguments and writes the result.
func tool(ctx context.Context, h kills.Host, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	var arguments struct {
		Message string `json:"message"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&arguments); err != nil {
		return err
	}
	result, err := h.Do(ctx, arguments.Message, n, os.Getenv("TURNSTILE_STEP_KEY"), os.Getenv("TURNSTILE_TURN_ID"))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
