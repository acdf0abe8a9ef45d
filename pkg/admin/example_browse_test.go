package admin_test

import (
	"context"
	"errors"
	"fmt"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
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

func ExampleQuery_Validate() {
	fmt.Println(admin.Query{Match: "web:*"}.Validate() == nil, admin.Query{Match: "no session"}.Validate() == nil)
	// Output: true false
}

func ExampleClient_Sessions() {
	operator, stop := waiting("web:42", "telegram:7")
	defer stop()
	for s, err := range operator.Sessions(context.Background(), admin.Query{Match: "web:*", OldestFirst: true}) {
		demo.Check(err)
		fmt.Println(s.Session, s.State, s.Waiting)
	}
	// Output: web:42 waiting 1
}

func ExampleClient_Page() {
	operator, stop := waiting("web:41", "web:42", "web:43", "telegram:7")
	defer stop()
	query := admin.Query{Prefix: "web:", Limit: 2}
	for {
		page, err := operator.Page(context.Background(), query)
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

func ExampleSession_Info() {
	operator, stop := waiting("web:42")
	defer stop()
	s, err := operator.Session("web:42").Info(context.Background())
	demo.Check(err)
	fmt.Println(s.Session, s.State, s.Paused)
	// Output: web:42 waiting false
}

func ExampleSession_Key() {
	operator, stop := waiting()
	defer stop()
	fmt.Println(operator.Session("web:42").Key())
	// Output: web:42
}

// A handle costs nothing: a wrong key is the error of each call.
func ExampleClient_Session() {
	operator, stop := waiting()
	defer stop()
	_, err := operator.Session("no session").Info(context.Background())
	fmt.Println(errors.Is(err, session.ErrInvalid))
	// Output: true
}

func ExampleClient_Workers() {
	operator, stop := waiting()
	defer stop()
	workers, err := operator.Workers(context.Background())
	fmt.Println(len(workers), err)
	// Output: 0 <nil>
}

func ExampleSession_Turn() {
	started := make(chan struct{})
	rdb, stop := demo.Worker(demo.Endless(started))
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	_, err := turnstile.NewClient(rdb).Session("web:42").Send(ctx, turnstile.Message{ID: "one", Text: "count to infinity"})
	demo.Check(err)
	<-started
	turn, err := operator.Session("web:42").Turn(ctx)
	demo.Check(err)
	for _, m := range turn.Messages {
		fmt.Println(m.ID, m.Text)
	}
	// Output: one count to infinity
}

func ExampleSession_LastDeadLetters() {
	operator, stop := waiting("web:42")
	defer stop()
	ctx := context.Background()
	letters, err := operator.Session("web:42").LastDeadLetters(ctx, 10)
	fmt.Println(len(letters), err)
	// Output: 0 <nil>
}
