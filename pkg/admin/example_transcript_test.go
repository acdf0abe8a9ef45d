package admin_test

import (
	"context"

	"turnstile"
	"turnstile/test/demo"
)

// say sends a message and waits for its end.
func say(ctx context.Context, client *turnstile.Client, text string) {
	receipt, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: text})
	demo.Check(err)
	_, err = client.Session("web:42").Wait(ctx, receipt.ID)
	demo.Check(err)
}
