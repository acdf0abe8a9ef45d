package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"turnstile"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// A reply to an older message than the last one would be a fork of the conversation.
func ExampleAfter() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	_, err := client.Submit(ctx, "web:42", session.Message{ID: "one", Text: "hello"})
	demo.Check(err)
	for _, id := range []string{"two", "fork"} {
		receipt, err := client.Submit(ctx, "web:42", session.Message{ID: id, Text: "and then?"}, turnstile.After("one"))
		demo.Check(err)
		fmt.Println(id, receipt.Status, errors.Is(receipt.Err(), session.ErrNotLast))
	}
	// Output:
	// two accepted false
	// fork refused true
}

func ExampleClient_Message() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	_, err := client.Submit(ctx, "web:42", session.Message{ID: "update-1001", Text: "hello"})
	demo.Check(err)
	m, err := client.Message(ctx, "web:42", "update-1001")
	fmt.Println(m.Text, m.State, m.Accepted.IsZero(), err)
	// Output: hello pending false <nil>
}

func ExampleClient_FollowEnd() {
	rdb, stop := demo.Worker(echo.New())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	_, err := client.Submit(ctx, "web:42", session.Message{ID: "update-1001", Text: "hello"})
	demo.Check(err)
	m, err := client.Message(ctx, "web:42", "update-1001")
	demo.Check(err)
	_, err = client.FollowEnd(ctx, "web:42", m.ID, m.Accepted, func(e session.Event) { fmt.Println(strings.TrimSpace(e.Type + " " + e.Text + string(e.Status))) })
	demo.Check(err)
	// Output:
	// turn_started
	// text echo: hello
	// turn_ended done
}
