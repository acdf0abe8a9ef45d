package admin_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
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
	taken, err := protocol.TakeLines(ctx, rdb, "web:42", []protocol.Line{{Destination: "web-bot", MaxAge: 1e9}}, 1e9)
	demo.Check(err)
	_, _, err = protocol.Ack{Delivery: taken.Deliveries[0], Verdict: protocol.GiveUp, Why: "HTTP status 422"}.Do(ctx, rdb)
	demo.Check(err)
	return operator
}

func ExampleClient_Outbox() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	for d, err := range givenUp(ctx, rdb).Outbox(ctx, "web:42") {
		demo.Check(err)
		fmt.Println(d.Destination, d.Type, d.Messages, d.Undelivered, d.Error)
	}
	// Output: web-bot message.stopped [one] true HTTP status 422
}

func ExampleClient_SessionsWithDeliveries() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	for key, err := range routed(ctx, rdb).SessionsWithDeliveries(ctx) {
		demo.Check(err)
		fmt.Println(key)
	}
	// Output: web:42
}

func ExampleClient_Redrive() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	fmt.Println(givenUp(ctx, rdb).Redrive(ctx, "web:42", "web-bot"))
	// Output: 1 <nil>
}

func ExampleClient_DropUndelivered() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	fmt.Println(givenUp(ctx, rdb).DropUndelivered(ctx, "web:42", ""))
	// Output: 1 <nil>
}

func ExampleEraseUndelivered() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	operator := routed(ctx, rdb)
	err := operator.Erase(ctx, "web:42")
	var undelivered *admin.UndeliveredError
	fmt.Println(errors.As(err, &undelivered), err)
	fmt.Println(operator.Erase(ctx, "web:42", admin.EraseUndelivered()))
	// Output:
	// true erase web:42: 0 outcomes are owed to destinations, 1 are not delivered
	// <nil>
}

func ExampleClient_SetDestination() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	demo.Check(operator.SetDestination(ctx, "web-bot", session.DestinationState{Paused: true, Why: "maintenance"}))
	fmt.Println(operator.SetDestination(ctx, "web-bot", session.DestinationState{})) // it gets its deliveries again
	// Output: <nil>
}

func ExampleClient_Owing() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client, operator := context.Background(), turnstile.NewClient(rdb), admin.NewClient(rdb)
	demo.Check(client.Session("web:42").SetReplyTo(ctx, "web-bot"))
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: "later", Text: "hello", Delay: time.Hour})
	demo.Check(err)
	o, err := operator.Owing(ctx, "web:42")
	demo.Check(err)
	fmt.Println(o.Owed, o.Stored, o.Undelivered)
	// Output: 1 0 0
}

func ExampleClient_Destinations() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	demo.Check(operator.SetDestination(ctx, "web-bot", session.DestinationState{Paused: true, Why: "maintenance"}))
	states, err := operator.Destinations(ctx)
	demo.Check(err)
	fmt.Println(states["web-bot"].Paused, states["web-bot"].Why)
	// Output: true maintenance
}

func ExampleUndeliveredError_Error() {
	err := &admin.UndeliveredError{Owed: 2, Undelivered: 1}
	fmt.Println(err.Error())
	// Output: 2 outcomes are owed to destinations, 1 are not delivered
}
