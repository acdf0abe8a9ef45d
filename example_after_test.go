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

// A reply to a message other than the last one would fork the session.
func ExampleMessage_after() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: "one", Text: "hello"})
	demo.Check(err)
	for _, id := range []string{"two", "fork"} {
		_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: id, Text: "and then?", After: "one"})
		fmt.Println(id, errors.Is(err, session.ErrNotLast))
	}
	// Output:
	// two false
	// fork true
}

func ExampleSession_Message() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: "update-1001", Text: "hello"})
	demo.Check(err)
	m, err := client.Session("web:42").Message(ctx, "update-1001")
	fmt.Println(m.Text, m.State, m.AcceptedAt.IsZero(), err)
	// Output: hello pending false <nil>
}

// A message's events end with the end of its turn.
func ExampleEventsOf() {
	rdb, stop := demo.Worker(echo.New())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: "update-1001", Text: "hello"})
	demo.Check(err)
	for e, err := range client.Session("web:42").Events(ctx, turnstile.EventsOf("update-1001")) {
		demo.Check(err)
		fmt.Println(strings.TrimSpace(string(e.Type) + " " + e.Text + string(e.Status)))
	}
	// Output:
	// turn_started
	// text echo: hello
	// turn_ended done
}
