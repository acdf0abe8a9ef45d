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

// A sender that does not know whether its call arrived repeats it with the same id.
func ExampleClient_Submit() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for range 2 {
		receipt, err := client.Submit(ctx, "web:42", session.Message{ID: "update-1001", Text: "hello"})
		demo.Check(err)
		fmt.Println(receipt.Status, receipt.ID)
	}
	// Output:
	// accepted update-1001
	// duplicate update-1001
}

// A slash command is carried out at once, without a worker.
func ExampleClient_Submit_command() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, text := range []string{"hello", "/status"} {
		receipt, err := client.Submit(ctx, "web:42", session.Message{Text: text})
		demo.Check(err)
		fmt.Printf("%s %q\n", receipt.Status, receipt.Reply)
	}
	// Output:
	// accepted ""
	// answered "Nothing runs yet, 1 waiting.\nNo worker is running: messages wait until one is started."
}

// What a stranger writes is no command.
func ExampleLiteral() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Submit(ctx, "web:42", session.Message{Text: "/stop it"}, turnstile.Literal())
	demo.Check(err)
	outcome, err := client.Wait(ctx, "web:42", receipt.ID)
	demo.Check(err)
	fmt.Println(receipt.Status, outcome.Reply)
	// Output: accepted /STOP IT
}

func ExampleDelay() {
	rdb, stop := demo.Redis()
	defer stop()
	client := turnstile.NewClient(rdb)
	receipt, err := client.Submit(context.Background(), "web:42", session.Message{Text: "remind me"}, turnstile.Delay(time.Hour))
	demo.Check(err)
	fmt.Println(receipt.Status, "in", time.Until(receipt.At).Round(time.Minute))
	// Output: scheduled in 1h0m0s
}

// The id is known before the first call, so that the call can be repeated.
func ExampleNewMessageID() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	m := session.Message{ID: turnstile.NewMessageID(), Text: "hello"}
	first, err := client.Submit(ctx, "web:42", m)
	demo.Check(err)
	second, err := client.Submit(ctx, "web:42", m)
	demo.Check(err)
	fmt.Println(first.Status, second.Status)
	// Output: accepted duplicate
}

func ExampleReceipt_Err() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClientWith(rdb, turnstile.ClientConfig{LineCap: 1})
	for _, id := range []string{"one", "two"} {
		receipt, err := client.Submit(ctx, "web:42", session.Message{ID: id, Text: "hello"})
		demo.Check(err)
		fmt.Println(receipt.Status, errors.Is(receipt.Err(), turnstile.ErrLineFull))
	}
	// Output:
	// accepted false
	// refused true
}
