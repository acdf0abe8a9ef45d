package admin_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/demo"
)

func ExampleClient_Line() {
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
	waiting, err := admin.NewClient(rdb).Line(ctx, "web:42", 2)
	demo.Check(err)
	for _, m := range waiting {
		fmt.Println(m.Text, !m.Due.IsZero())
	}
	// Output:
	// first false
	// second false
	// in an hour true
	// tomorrow true
}

func ExampleClient_LastEventID() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	say(ctx, client, "hello")
	last, err := admin.NewClient(rdb).LastEventID(ctx, "web:42")
	demo.Check(err)
	say(ctx, client, "bye")
	enough, end := context.WithCancel(ctx)
	_ = actors.Events(enough, client.Session("web:42"), last, func(e session.Event) error { // only what came later
		if e.Type == session.EventTurnEnded {
			fmt.Println(e.Reply)
			end()
		}
		return nil
	})
	// Output: BYE
}

// A message's receipt has a time before its events, from which a reader need not read what is older.
func ExampleClient_LastEventIDAt() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	say(ctx, client, "hello")
	receipt, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "bye"})
	demo.Check(err)
	place, err := admin.NewClient(rdb).LastEventIDAt(ctx, "web:42", receipt.EventsSince.UnixMilli())
	demo.Check(err)
	enough, end := context.WithCancel(ctx)
	_ = actors.Events(enough, client.Session("web:42"), place, func(e session.Event) error {
		if e.Type == session.EventTurnEnded && slices.Contains(e.Messages, receipt.ID) {
			fmt.Println(e.Reply)
			end()
		}
		return nil
	})
	// Output: BYE
}
