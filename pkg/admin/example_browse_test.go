package admin_test

import (
	"context"
	"fmt"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/test/demo"
)

// waiting starts a Redis without a worker, in which a message waits in each of the sessions.
func waiting(sessions ...string) (operator *admin.Client, stop func()) {
	rdb, stop := demo.Redis()
	client := turnstile.NewClient(rdb)
	for _, s := range sessions {
		_, err := client.Session(s).Send(context.Background(), turnstile.Message{ID: "one", Text: "hello"})
		demo.Check(err)
	}
	return admin.NewClient(rdb), stop
}

func ExampleValidateGlob() {
	fmt.Println(admin.ValidateGlob("web:*") == nil, admin.ValidateGlob("no session") == nil)
	// Output: true false
}

func ExampleClient_Browse() {
	operator, stop := waiting("web:42", "telegram:7")
	defer stop()
	for s, err := range operator.Browse(context.Background(), "web:*") {
		demo.Check(err)
		fmt.Println(s.Session, s.State, s.Pending)
	}
	// Output: web:42 waiting 1
}

func ExampleClient_List() {
	operator, stop := waiting("web:41", "web:42", "web:43", "telegram:7")
	defer stop()
	query := admin.ListQuery{Prefix: "web:", Limit: 2}
	for {
		page, err := operator.List(context.Background(), query)
		demo.Check(err)
		for _, s := range page.Sessions {
			fmt.Println(s.Session, s.State)
		}
		if query.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	// Output:
	// web:41 waiting
	// web:42 waiting
	// web:43 waiting
}

func ExampleClient_States() {
	operator, stop := waiting("web:42")
	defer stop()
	ctx := context.Background()
	busy, err := operator.BusySessions(ctx)
	demo.Check(err)
	states, err := operator.States(ctx, busy)
	demo.Check(err)
	for _, s := range states {
		fmt.Println(s.Session, s.State, s.Paused)
	}
	// Output: web:42 waiting false
}

func ExampleClient_NextMessage() {
	operator, stop := waiting("web:42")
	defer stop()
	id, err := operator.NextMessage(context.Background(), "web:42")
	fmt.Println(id, err)
	// Output: one <nil>
}

func ExampleClient_Workers() {
	operator, stop := waiting()
	defer stop()
	workers, err := operator.Workers(context.Background())
	fmt.Println(len(workers), err)
	// Output: 0 <nil>
}

func ExampleClient_RunningTurn() {
	started := make(chan struct{})
	rdb, stop := demo.Worker(demo.Endless(started))
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	_, err := turnstile.NewClient(rdb).Session("web:42").Send(ctx, turnstile.Message{ID: "one", Text: "count to infinity"})
	demo.Check(err)
	<-started
	info, err := turnstile.NewClient(rdb).Session("web:42").Info(ctx)
	demo.Check(err)
	turn, err := operator.RunningTurn(ctx, info)
	demo.Check(err)
	for _, m := range turn.Messages {
		fmt.Println(m.ID, m.Text)
	}
	// Output: one count to infinity
}

func ExampleClient_LastDeadLetters() {
	operator, stop := waiting("web:42")
	defer stop()
	ctx := context.Background()
	letters, err := operator.LastDeadLetters(ctx, "web:42", 10)
	fmt.Println(len(letters), err)
	// Output: 0 <nil>
}
