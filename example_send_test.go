package turnstile_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// send is the code in README and docs/library.md.
func send(ctx context.Context, rdb redis.UniversalClient) error {
	chat := turnstile.NewClient(rdb).Session("web:42") // rdb is a go-redis v9 client
	sent, err := chat.Send(ctx, turnstile.Message{ID: "update-1001", Text: "hello"})
	if err != nil {
		return err // refused (ErrRefused) or sent before (ErrExpired); else send it again with the same ID
	}
	outcome, err := chat.Wait(ctx, sent.ID)
	fmt.Println(outcome.Reply)
	return cmp.Or(err, outcome.Err()) // nil if the turn succeeded
}

// A program that sends a message and waits for the reply. A repeated message runs once.
func Example_sender() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	for range 2 {
		if err := send(context.Background(), rdb); err != nil {
			panic(err)
		}
	}
	// Output:
	// HELLO
	// HELLO
}

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

// delivered prints a session's undelivered outcomes.
func delivered(ctx context.Context, operator *admin.Client, sessionKey string) {
	for d, err := range operator.Session(sessionKey).Deliveries(ctx) {
		demo.Check(err)
		fmt.Println(d.Destination, d.Type, d.Messages)
	}
}

// A message says where its outcome goes, and with which context.
func ExampleMessage_replyTo() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{
		ID: "one", Text: "hello", ReplyTo: "telegram-bot", ReplyContext: json.RawMessage(`{"chat":42}`),
	})
	demo.Check(err)
	_, err = client.Session("web:42").Wait(ctx, "one")
	demo.Check(err)
	delivered(ctx, admin.NewClient(rdb), "web:42")
	// Output: telegram-bot message.done [one]
}

// A sender names the destination of messages that have none.
func ExampleClientConfig_defaultReplyTo() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb, turnstile.ClientConfig{DefaultReplyTo: func(string) string { return "web-bot" }})
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: "one", Text: "hello"})
	demo.Check(err)
	_, err = client.Session("web:42").Wait(ctx, "one")
	demo.Check(err)
	delivered(ctx, admin.NewClient(rdb), "web:42")
	// Output: web-bot message.done [one]
}

// A session has a destination for all of its messages.
func ExampleSession_SetReplyTo() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	demo.Check(client.Session("web:42").SetReplyTo(ctx, "web-bot"))
	say(ctx, client, "hello")
	for d, err := range admin.NewClient(rdb).Session("web:42").Deliveries(ctx) {
		demo.Check(err)
		fmt.Println(d.Destination, d.Type)
	}
	// Output: web-bot message.done
}
