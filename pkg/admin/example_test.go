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

// stopped returns a Redis with two dead letters: Stop has archived two waiting messages.
func stopped(ctx context.Context, rdb redis.UniversalClient) {
	client := turnstile.NewClient(rdb)
	for _, id := range []string{"one", "two"} {
		_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: id, Text: "hello " + id})
		demo.Check(err)
	}
	_, err := client.Session("web:42").Stop(ctx)
	demo.Check(err)
}

func ExampleSession_DeadLetters() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	stopped(ctx, rdb)
	for letter, err := range admin.NewClient(rdb).Session("web:42").DeadLetters(ctx) {
		demo.Check(err)
		fmt.Println(letter.ID, letter.Text, letter.Outcome.Status)
	}
	// Output:
	// one hello one stopped
	// two hello two stopped
}

// rerunAll reruns the dead letters of all sessions.
func rerunAll(ctx context.Context, operator *admin.Client) error {
	for s, err := range operator.Sessions(ctx, admin.Query{State: admin.StateDeadLetters}) {
		if err != nil {
			return err
		}
		if _, err := operator.Session(s.Session).Rerun(ctx, admin.All); err != nil {
			return err
		}
	}
	return nil
}

func ExampleClient_Sessions_deadLetters() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	stopped(ctx, rdb)
	demo.Check(rerunAll(ctx, operator))
	s, err := operator.Session("web:42").Info(ctx)
	demo.Check(err)
	fmt.Println(s.State, s.Waiting, s.DeadLetters)
	// Output: waiting 2 0
}

func ExampleSession_Rerun() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	stopped(ctx, rdb)
	n, err := operator.Session("web:42").Rerun(ctx, admin.All)
	demo.Check(err)
	info, err := turnstile.NewClient(rdb).Session("web:42").Info(ctx)
	demo.Check(err)
	fmt.Println(n, info.Waiting, info.DeadLetters)
	// Output: 2 2 0
}

func ExampleSession_Rerun_one() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	stopped(ctx, rdb)
	n, err := operator.Session("web:42").Rerun(ctx, "two")
	demo.Check(err)
	fmt.Println(n)
	for m, err := range operator.Session("web:42").Queue(ctx) {
		demo.Check(err)
		fmt.Println(m.ID, m.State)
	}
	// Output:
	// 1
	// two pending
}

// The cap of the queue is the same as that of senders and workers.
func ExampleConfig() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	stopped(ctx, rdb)
	n, err := admin.NewClient(rdb, admin.Config{Limits: session.Limits{Queue: 1}}).Session("web:42").Rerun(ctx, admin.All)
	fmt.Println(n, err)
	// Output: 1 <nil>
}

func ExampleSession_DeleteDeadLetters() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	stopped(ctx, rdb)
	n, err := operator.Session("web:42").DeleteDeadLetters(ctx, "one")
	fmt.Println(n, err)
	n, err = operator.Session("web:42").DeleteDeadLetters(ctx, admin.All)
	fmt.Println(n, err)
	// Output:
	// 1 <nil>
	// 1 <nil>
}

func ExampleSession_Erase() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	stopped(ctx, rdb)
	demo.Check(admin.NewClient(rdb).Session("web:42").Erase(ctx))
	fmt.Println(rdb.DBSize(ctx).Val(), "keys")
	// Output: 0 keys
}

func ExampleSession_Queue() {
	rdb, stop := demo.Redis() // no worker, so messages wait
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, m := range []struct {
		text  string
		delay time.Duration
	}{{"tomorrow", 24 * time.Hour}, {"first", 0}, {"in an hour", time.Hour}, {"second", 0}, {"third", 0}} {
		_, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: m.text, Delay: m.delay})
		demo.Check(err)
	}
	for m, err := range admin.NewClient(rdb).Session("web:42").Queue(ctx) {
		demo.Check(err)
		fmt.Println(m.Text, m.State, !m.Due.IsZero())
	}
	// Output:
	// first pending false
	// second pending false
	// third pending false
	// in an hour scheduled true
	// tomorrow scheduled true
}

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
