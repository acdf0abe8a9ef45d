package turnstile_test

import (
	"context"
	"encoding/json"
	"fmt"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/test/demo"
)

// delivered prints a session's undelivered outcomes.
func delivered(ctx context.Context, operator *admin.Client, sessionKey string) {
	for d, err := range operator.Session(sessionKey).Deliveries(ctx) {
		demo.Check(err)
		fmt.Println(d.Destination, d.Type, d.Messages)
	}
}

// A message says where its outcome goes, and with which context.
func ExampleMessage_replyTo() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{
		ID: "one", Text: "hello", ReplyTo: "telegram-bot", ReplyContext: json.RawMessage(`{"chat":42}`),
	})
	demo.Check(err)
	_, err = client.Session("web:42").Wait(ctx, "one")
	demo.Check(err)
	delivered(ctx, admin.NewClient(rdb), "web:42")
	// Output: telegram-bot message.done [one]
}

// A sender names the destination of messages that have none.
func ExampleClientConfig_defaultReplyTo() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb, turnstile.ClientConfig{DefaultReplyTo: func(string) string { return "web-bot" }})
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: "one", Text: "hello"})
	demo.Check(err)
	_, err = client.Session("web:42").Wait(ctx, "one")
	demo.Check(err)
	delivered(ctx, admin.NewClient(rdb), "web:42")
	// Output: web-bot message.done [one]
}

// A session has a destination for all of its messages.
func ExampleSession_SetReplyTo() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	demo.Check(client.Session("web:42").SetReplyTo(ctx, "web-bot"))
	say(ctx, client, "hello")
	for d, err := range admin.NewClient(rdb).Session("web:42").Deliveries(ctx) {
		demo.Check(err)
		fmt.Println(d.Destination, d.Type)
	}
	// Output: web-bot message.done
}
