package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"turnstile/pkg/agent"
	"turnstile/test/kills"
)

// command is an agent that speaks jsonl on its stdin and stdout.
type command struct {
	host kills.Host
	in   *json.Decoder
	out  *json.Encoder
	turn string
}

func newCommand(h kills.Host) *command {
	return &command{host: h, in: json.NewDecoder(os.Stdin), out: json.NewEncoder(os.Stdout), turn: os.Getenv("TURNSTILE_TURN_ID")}
}

type object map[string]any

func (c *command) run(ctx context.Context) error {
	var turn struct {
		Messages []struct{ ID string }
	}
	if err := c.in.Decode(&turn); err != nil {
		return err
	}
	message := turn.Messages[0].ID
	for n := range kills.Steps {
		if err := c.out.Encode(object{"type": "text", "text": "And " + kills.Name(n) + ". "}); err != nil {
			return err
		}
		if err := c.step(ctx, message, n); err != nil {
			return fmt.Errorf("step %d: %w", n, err)
		}
	}
	return c.out.Encode(object{"type": "result", "text": "done " + message})
}

func (c *command) step(ctx context.Context, message string, n int) error {
	key := kills.Name(n)
	start := object{"type": "tool_start", "key": key, "input": object{"message": message}, "safe": kills.Safe(n), "run_again": kills.Again(n)}
	if err := c.out.Encode(start); err != nil {
		return err
	}
	var known struct{ agent.StepRecord }
	if err := c.in.Decode(&known); err != nil {
		return err
	}
	var result kills.Result
	switch known.State {
	case agent.StepDone:
		if known.Error != "" {
			return nil
		}
		if err := json.Unmarshal(known.Output, &result); err != nil {
			return err
		}
		return c.host.Keep(message, result, c.turn)
	case agent.StepUnknown:
		if !kills.Again(n) && !kills.Safe(n) {
			return c.end(object{"key": key, "error": "nobody knows"})
		}
	case agent.StepNew:
	default:
		return errors.New(known.Error)
	}
	result, err := c.host.Do(ctx, message, n, known.IdempotencyKey, c.turn)
	if err != nil {
		return err
	}
	if err := c.end(object{"key": key, "output": result}); err != nil {
		return err
	}
	return c.host.Keep(message, result, c.turn)
}

// end writes the end of a step, and returns after it is stored.
func (c *command) end(end object) error {
	end["type"] = "tool_end"
	if err := c.out.Encode(end); err != nil {
		return err
	}
	var stored struct{ Error string }
	if err := c.in.Decode(&stored); err != nil {
		return err
	}
	if stored.Error != "" {
		return errors.New(stored.Error)
	}
	return nil
}
