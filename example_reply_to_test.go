package turnstile_test

import (
	"context"
	"encoding/json"
	"fmt"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// delivered prints what is to be delivered for a session.
func delivered(ctx context.Context, operator *admin.Client, sessionKey string) {
	for d, err := range operator.Outbox(ctx, sessionKey) {
		demo.Check(err)
		fmt.Println(d.Destination, d.Type, d.Messages)
	}
}

// A message says where its outcome goes, and with which context.
func ExampleReplyTo() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	route := session.Route{To: "telegram-bot", Context: json.RawMessage(`{"chat":42}`)}
	_, err := client.Submit(ctx, "web:42", session.Message{ID: "one", Text: "hello"}, turnstile.ReplyTo(route))
	demo.Check(err)
	_, err = client.Wait(ctx, "web:42", "one")
	demo.Check(err)
	delivered(ctx, admin.NewClient(rdb), "web:42")
	// Output: telegram-bot message.done [one]
}

// A sender names the destination of messages that have none.
func ExampleDefaultReplyTo() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	_, err := client.Submit(ctx, "web:42", session.Message{ID: "one", Text: "hello"}, turnstile.DefaultReplyTo("web-bot"))
	demo.Check(err)
	_, err = client.Wait(ctx, "web:42", "one")
	demo.Check(err)
	delivered(ctx, admin.NewClient(rdb), "web:42")
	// Output: web-bot message.done [one]
}

// A session has a destination for all of its messages.
func ExampleClient_SetReplyTo() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	demo.Check(client.SetReplyTo(ctx, "web:42", "web-bot"))
	say(ctx, client, "hello")
	for d, err := range admin.NewClient(rdb).Outbox(ctx, "web:42") {
		demo.Check(err)
		fmt.Println(d.Destination, d.Type)
	}
	// Output: web-bot message.done
}
