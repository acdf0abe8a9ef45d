package main

import (
	"context"
	"encoding/json"
	"errors"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/kills"
)

// stepper is an agent with agent.Step.
type stepper struct{ host kills.Host }

// Run implements agent.Agent.
func (s stepper) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	message := turn.Messages[0].ID
	for n := range kills.Steps {
		turn.Emit(agent.Event{Type: session.EventText, Text: "And " + kills.Name(n) + ". "})
		err := s.step(ctx, turn, message, n)
		if err != nil && !errors.Is(err, agent.ErrStepUnknown) {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return agent.Result{}, err
		}
	}
	return agent.Result{Text: "done " + message}, nil
}

func (s stepper) step(ctx context.Context, turn *agent.Turn, message string, n int) error {
	input, err := json.Marshal(map[string]string{"message": message})
	if err != nil {
		return err
	}
	spec := agent.StepSpec{Key: kills.Name(n), Input: input, Safe: kills.Safe(n), RunAgain: kills.Again(n)}
	result, err := agent.Step(ctx, turn, spec, func(ctx context.Context, key string) (kills.Result, error) {
		return s.host.Do(ctx, message, n, key, turn.ID)
	})
	if err != nil {
		return err
	}
	return s.host.Keep(message, result, turn.ID)
}
