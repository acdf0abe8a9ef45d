package turnstile_test

import (
	"context"
	"encoding/json"
	"fmt"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/test/demo"
)

// A turn waits for its payment, for days if need be, and whoever knows the secret says that it is paid.
func ExampleSession_Give() {
	secrets := make(chan string, 1)
	rdb, stop := demo.Worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		value, err := turn.Wait(ctx, agent.Wait{Key: "payment:42", Begin: func(_ context.Context, secret string) error {
			secrets <- secret
			return nil
		}})
		return agent.Result{Text: string(value)}, err
	}))
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb).Session("web:42")
	receipt, err := chat.Send(ctx, turnstile.Message{Text: "one coffee"})
	demo.Check(err)
	err = chat.Give(ctx, turnstile.Value{Key: "payment:42", Secret: <-secrets, JSON: json.RawMessage(`{"paid": true}`)})
	demo.Check(err)
	outcome, err := chat.Wait(ctx, receipt.ID)
	demo.Check(err)
	fmt.Println(outcome.Reply)
	// Output: {"paid":true}
}
