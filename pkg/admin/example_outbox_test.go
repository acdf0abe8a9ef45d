package admin_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/deliveries"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// routed returns a client of a session with an outcome that is to be delivered.
func routed(ctx context.Context, rdb redis.UniversalClient) *admin.Client {
	client := turnstile.NewClient(rdb)
	demo.Check(client.Session("web:42").SetReplyTo(ctx, "web-bot"))
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: "one", Text: "hello"})
	demo.Check(err)
	_, err = client.Session("web:42").Stop(ctx)
	demo.Check(err)
	return admin.NewClient(rdb)
}

// givenUp is routed, and a deliverer has given the outcome up.
func givenUp(ctx context.Context, rdb redis.UniversalClient) *admin.Client {
	operator := routed(ctx, rdb)
	taken, err := deliveries.TakeLines(ctx, rdb, "web:42", []deliveries.Line{{Destination: "web-bot", MaxAge: 1e9}}, 1e9)
	demo.Check(err)
	_, _, err = deliveries.Ack{Delivery: taken.Deliveries[0], Verdict: deliveries.GiveUp, Why: "HTTP status 422"}.Do(ctx, rdb)
	demo.Check(err)
	return operator
}

func ExampleSession_Deliveries() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	for d, err := range givenUp(ctx, rdb).Session("web:42").Deliveries(ctx) {
		demo.Check(err)
		fmt.Println(d.Destination, d.Type, d.Messages, d.GivenUp, d.Error)
	}
	// Output: web-bot message.stopped [one] true HTTP status 422
}

func ExampleSession_Redrive() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	fmt.Println(givenUp(ctx, rdb).Session("web:42").Redrive(ctx, "web-bot"))
	// Output: 1 <nil>
}

func ExampleSession_DeleteUndelivered() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	fmt.Println(givenUp(ctx, rdb).Session("web:42").DeleteUndelivered(ctx, admin.All))
	// Output: 1 <nil>
}

func ExampleEraseUndelivered() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	operator := routed(ctx, rdb)
	err := operator.Session("web:42").Erase(ctx)
	fmt.Println(errors.Is(err, session.ErrUndelivered), err)
	fmt.Println(operator.Session("web:42").Erase(ctx, admin.EraseUndelivered()))
	// Output:
	// true erase web:42: 0 outcomes are owed to destinations, 1 are not delivered
	// <nil>
}

func ExampleClient_EnableDestination() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	demo.Check(operator.PauseDestination(ctx, "web-bot", "maintenance"))
	demo.Check(operator.EnableDestination(ctx, "web-bot"))
	off, err := operator.Destinations(ctx)
	fmt.Println(len(off), err)
	// Output: 0 <nil>
}

func ExampleSession_Undelivered() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client, operator := context.Background(), turnstile.NewClient(rdb), admin.NewClient(rdb)
	demo.Check(client.Session("web:42").SetReplyTo(ctx, "web-bot"))
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: "later", Text: "hello", Delay: time.Hour})
	demo.Check(err)
	o, err := operator.Session("web:42").Undelivered(ctx)
	demo.Check(err)
	fmt.Println(o.Owed, o.Waiting, o.GivenUp)
	// Output: 1 0 0
}

func ExampleClient_PauseDestination() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	demo.Check(operator.PauseDestination(ctx, "web-bot", "maintenance"))
	off, err := operator.Destinations(ctx)
	demo.Check(err)
	fmt.Println(off[0].Name, off[0].Paused, off[0].Why)
	// Output: web-bot true maintenance
}

// A destination that responded with 410 gets nothing until it is enabled.
func ExampleClient_Destinations() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	_, err := deliveries.Finding{Destination: "web-bot", Disabled: true, Why: "410 Gone"}.Store(ctx, rdb)
	demo.Check(err)
	off, err := admin.NewClient(rdb).Destinations(ctx)
	demo.Check(err)
	for _, d := range off {
		fmt.Println(d.Name, d.Disabled, d.Why)
	}
	// Output: web-bot true 410 Gone
}
