package turnstile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// Any number of goroutines share one client.
func ExampleNewClient() {
	rdb, stop := demo.Redis()
	defer stop()
	client := turnstile.NewClient(rdb)
	receipt, err := client.Session("web:42").Send(context.Background(), turnstile.Message{ID: "update-1001", Text: "hello"})
	fmt.Println(receipt.State, err)
	// Output: pending <nil>
}

// A public chat may want smaller limits than the defaults.
func ExampleNewClient_config() {
	rdb, stop := demo.Redis()
	defer stop()
	client := turnstile.NewClient(rdb, turnstile.ClientConfig{Limits: session.Limits{MessageBytes: 30}})
	_, err := client.Session("web:42").Send(context.Background(), turnstile.Message{Text: "hello, how are you?"})
	fmt.Println(errors.Is(err, session.ErrTooLarge))
	// Output: true
}

func ExampleSession_Wait() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "hello"})
	demo.Check(err)
	outcome, err := client.Session("web:42").Wait(ctx, receipt.ID)
	demo.Check(err)
	fmt.Println(outcome.Status, outcome.Reply)
	// Output: done HELLO
}

// The pieces of a reply are shown as they come.
func ExampleSession_Events_ofAMessage() {
	rdb, stop := demo.Worker(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		turn.Emit(agent.Event{Type: session.EventToolStart, Name: "clock", CallID: "1"})
		turn.Emit(agent.Event{Type: session.EventToolEnd, CallID: "1"})
		turn.Emit(agent.Event{Type: session.EventText, Text: "It is late."})
		return agent.Result{}, nil
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "what time is it?"})
	demo.Check(err)
	for e, err := range client.Session("web:42").Events(ctx, turnstile.EventsOf(receipt.ID)) {
		demo.Check(err)
		switch e.Type {
		case session.EventToolStart:
			fmt.Println("tool:", e.Name)
		case session.EventText:
			fmt.Println("text:", e.Text)
		case session.EventTurnEnded:
			fmt.Println(e.Status)
		}
	}
	// Output:
	// tool: clock
	// text: It is late.
	// done
}

// A page that was reloaded shows the rest of a reply: it keeps the ID of the last event that it has
// shown.
func ExampleEventsAfter() {
	reloaded := make(chan struct{})
	rdb, stop := demo.Worker(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		turn.Emit(agent.Event{Type: session.EventText, Text: "good "})
		<-reloaded
		turn.Emit(agent.Event{Type: session.EventText, Text: "morning"})
		return agent.Result{}, nil
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "hello"})
	demo.Check(err)

	var shown string
	for e, err := range client.Session("web:42").Events(ctx, turnstile.EventsOf(receipt.ID)) {
		demo.Check(err)
		if shown = e.ID; e.Type == session.EventText {
			fmt.Printf("%q\n", e.Text)
			break
		}
	}
	close(reloaded)

	for e, err := range client.Session("web:42").Events(ctx, turnstile.EventsOf(receipt.ID), turnstile.EventsAfter(shown)) {
		demo.Check(err)
		fmt.Printf("%q\n", e.Text+e.Reply)
	}
	// Output:
	// "good "
	// "morning"
	// "good morning"
}

// A page shows all events of a session. It keeps the ID of the last one for a reload.
func ExampleSession_Events() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, text := range []string{"good morning", "good night"} {
		receipt, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: text})
		demo.Check(err)
		_, err = client.Session("web:42").Wait(ctx, receipt.ID)
		demo.Check(err)
	}
	shown := ""
	for range 2 {
		for e, err := range client.Session("web:42").Events(ctx, turnstile.EventsAfter(shown)) {
			demo.Check(err)
			if e.ID != "" {
				shown = e.ID
			}
			if e.Type == session.EventTurnEnded {
				fmt.Println(e.Reply)
				break
			}
		}
	}
	// Output:
	// GOOD MORNING
	// GOOD NIGHT
}

// A program that keeps a copy of the stream reads the events as they are stored.
func ExampleEventsStored() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	say(ctx, client, "hello")
	for e, err := range client.Session("web:42").Events(ctx, turnstile.EventsStored()) {
		demo.Check(err)
		fmt.Println(e.Type, e.ID != "")
		if e.Type == session.EventTurnEnded {
			break
		}
	}
	// Output:
	// turn_started true
	// turn_ended true
}

// A program that writes the stream elsewhere does so page by page.
func ExampleSession_EventPages() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	say(ctx, client, "hello")
	for page, err := range client.Session("web:42").EventPages(ctx, "") {
		demo.Check(err)
		fmt.Println(len(page) > 0, page[0].ID != "")
		break
	}
	// Output: true true
}

// A page sends a message and shows all later events of the session.
func ExampleEventsSince() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb).Session("web:42")
	sent, err := chat.Send(ctx, turnstile.Message{Text: "hello"})
	demo.Check(err)
	for e, err := range chat.Events(ctx, turnstile.EventsSince(sent.EventsSince)) {
		demo.Check(err)
		if e.Type == session.EventTurnEnded {
			fmt.Println(e.Reply)
			break
		}
	}
	// Output: HELLO
}

// A turn waits for its payment, for days if need be, and whoever knows the secret says that it is paid.
func ExampleSession_Give() {
	secrets := make(chan string, 1)
	rdb, stop := demo.Worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		value, err := turn.Wait(ctx, agent.Wait{Key: "payment:42", Begin: func(_ context.Context, secret string) error {
			secrets <- secret
			return nil
		}})
		return agent.Result{Text: string(value)}, err
	}))
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb).Session("web:42")
	receipt, err := chat.Send(ctx, turnstile.Message{Text: "one coffee"})
	demo.Check(err)
	err = chat.Give(ctx, turnstile.Value{Key: "payment:42", Secret: <-secrets, JSON: json.RawMessage(`{"paid": true}`)})
	demo.Check(err)
	outcome, err := chat.Wait(ctx, receipt.ID)
	demo.Check(err)
	fmt.Println(outcome.Reply)
	// Output: {"paid":true}
}
