package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// A sender that does not know whether its call arrived repeats it with the same ID.
func ExampleSession_Send() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb).Session("web:42")
	for range 2 {
		sent, err := chat.Send(ctx, turnstile.Message{ID: "update-1001", Text: "hello"})
		demo.Check(err)
		fmt.Println(sent.ID, sent.State, sent.Duplicate)
	}
	// Output:
	// update-1001 pending false
	// update-1001 pending true
}

// Text is data: Send carries out no command.
func ExampleSession_Send_text() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb).Session("web:42")
	sent, err := chat.Send(ctx, turnstile.Message{Text: "/stop"})
	demo.Check(err)
	outcome, err := chat.Wait(ctx, sent.ID)
	fmt.Println(outcome.Reply, err)
	// Output: /STOP <nil>
}

// A refused message is an error.
func ExampleSession_Send_refused() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb, turnstile.ClientConfig{Limits: session.Limits{Queue: 1}}).Session("web:42")
	for _, id := range []string{"one", "two"} {
		_, err := chat.Send(ctx, turnstile.Message{ID: id, Text: "hello"})
		fmt.Println(errors.Is(err, session.ErrFull), err)
	}
	// Output:
	// false <nil>
	// true message two of web:42 was refused: too many messages wait in the session
}

// A text box has messages and commands.
func ExampleParseInput() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb).Session("web:42")
	for _, text := range []string{"hello", "/status", "//status is a command"} {
		m, command := turnstile.ParseInput(turnstile.Message{Text: text})
		if command {
			reply, err := chat.Command(ctx, m.Text)
			fmt.Printf("%q %v\n", reply, err)
			continue
		}
		sent, err := chat.Send(ctx, m)
		demo.Check(err)
		fmt.Println(sent.State, m.Text)
	}
	// Output:
	// pending hello
	// "Nothing runs yet, 1 waiting.\nNo worker is running: messages wait until one is started." <nil>
	// pending /status is a command
}

// The error of a wrong command is for the user.
func ExampleSession_Command() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb).Session("web:42")
	fmt.Println(chat.Command(ctx, "/title The build", turnstile.CommandConfig{ID: "update-1002"}))
	_, err := chat.Command(ctx, "/histroy")
	fmt.Println(errors.Is(err, session.ErrInvalid), err)
	// Output:
	// The conversation's title is now: The build <nil>
	// true Unknown command /histroy: did you mean /history? To send it as a message, write //histroy.
}

func ExampleMessage_delay() {
	rdb, stop := demo.Redis()
	defer stop()
	sent, err := turnstile.NewClient(rdb).Session("web:42").Send(context.Background(), turnstile.Message{Text: "remind me", Delay: time.Hour})
	demo.Check(err)
	fmt.Println(sent.State, "in", time.Until(sent.At).Round(time.Minute))
	// Output: scheduled in 1h0m0s
}

// The ID is known before the first call, so that the call can be repeated.
func ExampleNewMessageID() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb).Session("web:42")
	m := turnstile.Message{ID: turnstile.NewMessageID(), Text: "hello"}
	first, err := chat.Send(ctx, m)
	demo.Check(err)
	second, err := chat.Send(ctx, m)
	demo.Check(err)
	fmt.Println(first.Duplicate, second.Duplicate)
	// Output: false true
}
