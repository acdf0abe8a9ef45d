package actors

import (
	"context"

	"turnstile/pkg/agent"
)

// Pays is an agent that asks for permission to pay, and says what was decided. While it waits, its turn can be parked.
func Pays() agent.Agent {
	return agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		d, err := turn.Ask(ctx, agent.Question{Key: "pay", Name: "pay", Text: "12 EUR"})
		if err != nil {
			return agent.Result{}, err
		}
		if d.Allowed() {
			return agent.Result{Text: "It is paid."}, nil
		}
		return agent.Result{Text: "It is not paid."}, nil
	})
}
