package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"turnstile/pkg/agent"
)

// invoicing sends an invoice once, and waits until it is paid.
func invoicing(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	value, err := turn.Wait(ctx, agent.Wait{
		Key: "invoice:42", Timeout: 7 * 24 * time.Hour,
		Begin: func(ctx context.Context, secret string) error {
			_, err := agent.Step(ctx, turn, agent.StepSpec{Key: "send:42", Name: "invoice"}, func(context.Context, string) (bool, error) {
				fmt.Println("the invoice asks for invoice:42 with", secret)
				return true, nil
			})
			return err
		},
	})
	return agent.Result{Text: "got " + string(value)}, err
}

// In a test a function replaces the worker.
func ExampleTurn_Wait() {
	host := agent.Host{Wait: func(ctx context.Context, w agent.Wait) (json.RawMessage, error) {
		if err := w.Begin(ctx, "5e884898da28"); err != nil {
			return nil, err
		}
		return json.RawMessage(`{"paid":true}`), nil
	}}
	result, err := invoicing(context.Background(), &agent.Turn{ID: "t1", Host: host})
	fmt.Println(result.Text, err)
	// Output:
	// the invoice asks for invoice:42 with 5e884898da28
	// got {"paid":true} <nil>
}
