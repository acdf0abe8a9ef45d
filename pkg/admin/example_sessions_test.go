package admin_test

import (
	"context"
	"fmt"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/test/demo"
)

func ExampleNewClient() {
	rdb, stop := demo.Redis()
	defer stop()
	operator := admin.NewClient(rdb)
	workers, err := operator.Workers(context.Background())
	fmt.Println(len(workers), err)
	// Output: 0 <nil>
}

// No worker runs here, so each message waits.
func ExampleClient_Sessions_busy() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for range 2 {
		_, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "hello"})
		demo.Check(err)
	}
	for s, err := range admin.NewClient(rdb).Sessions(ctx, admin.Query{State: admin.StateBusy}) {
		demo.Check(err)
		fmt.Println(s.Session, s.State, s.Waiting)
	}
	// Output: web:42 waiting 2
}

func ExampleSession_FollowUps() {
	started := make(chan struct{})
	rdb, stop := demo.Worker(demo.Endless(started))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "count to infinity"})
	demo.Check(err)
	<-started
	_, err = client.Session("web:42").Send(ctx, turnstile.Message{ID: "two", Text: "by twos"})
	demo.Check(err)
	followups, err := admin.NewClient(rdb).Session("web:42").FollowUps(ctx)
	demo.Check(err)
	for _, f := range followups {
		fmt.Println(f.ID, f.Text, f.State)
	}
	// Output: two by twos pending
}

// If sessions wait for a free slot for long, there are too few workers.
func ExampleClient_Backlog() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, key := range []string{"web:1", "web:2"} {
		_, err := client.Session(key).Send(ctx, turnstile.Message{Text: "hello"})
		demo.Check(err)
	}
	backlog, err := admin.NewClient(rdb).Backlog(ctx)
	demo.Check(err)
	fmt.Println(backlog.Ready, backlog.Due)
	// Output: 2 0
}

func ExampleClient_CountSessions() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, key := range []string{"web:1", "web:2"} {
		_, err := client.Session(key).Send(ctx, turnstile.Message{Text: "hello"})
		demo.Check(err)
	}
	all, attention, err := admin.NewClient(rdb).CountSessions(ctx)
	demo.Check(err)
	fmt.Println(all, attention)
	// Output: 2 0
}
