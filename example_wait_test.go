package turnstile_test

import (
	"context"
	"errors"
	"fmt"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

func ExampleClient_Wait() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Submit(ctx, "web:42", session.Message{Text: "hello"})
	demo.Check(err)
	outcome, err := client.Wait(ctx, "web:42", receipt.ID)
	demo.Check(err)
	fmt.Println(outcome.Status, outcome.Reply)
	// Output: done HELLO
}

func ExampleClient_MessageState() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Submit(ctx, "web:42", session.Message{Text: "hello"})
	demo.Check(err)
	state, _, ended, err := client.MessageState(ctx, "web:42", receipt.ID)
	demo.Check(err)
	fmt.Println(state, ended)
	// Output: pending false
}

// The pieces of a reply are shown as they come.
func ExampleClient_Follow() {
	rdb, stop := demo.Worker(demo.Agent(func(_ context.Context, _ agent.Turn, emit func(agent.Event)) (agent.Result, error) {
		emit(agent.Event{Type: agent.EventToolStart, Name: "clock", CallID: "1"})
		emit(agent.Event{Type: agent.EventToolEnd, CallID: "1"})
		emit(agent.Event{Type: agent.EventText, Text: "It is late."})
		return agent.Result{}, nil
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Submit(ctx, "web:42", session.Message{Text: "what time is it?"})
	demo.Check(err)
	outcome, err := client.Follow(ctx, "web:42", receipt.ID, func(e session.Event) {
		switch e.Type {
		case string(agent.EventToolStart):
			fmt.Println("tool:", e.Name)
		case string(agent.EventText):
			fmt.Println("text:", e.Text)
		}
	})
	demo.Check(err)
	fmt.Println(outcome.Status)
	// Output:
	// tool: clock
	// text: It is late.
	// done
}

// A page that was reloaded shows the rest of a reply: it keeps the id of the last event that it has
// shown.
func ExampleClient_FollowFrom() {
	reloaded := make(chan struct{})
	rdb, stop := demo.Worker(demo.Agent(func(_ context.Context, _ agent.Turn, emit func(agent.Event)) (agent.Result, error) {
		emit(agent.Event{Type: agent.EventText, Text: "good "})
		<-reloaded
		emit(agent.Event{Type: agent.EventText, Text: "morning"})
		return agent.Result{}, nil
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Submit(ctx, "web:42", session.Message{Text: "hello"})
	demo.Check(err)

	var shown string
	first, leave := context.WithCancel(ctx)
	_, err = client.Follow(first, "web:42", receipt.ID, func(e session.Event) {
		if shown = e.ID; e.Type == string(agent.EventText) {
			fmt.Printf("%q\n", e.Text)
			leave()
		}
	})
	fmt.Println(err)
	close(reloaded)

	outcome, err := client.FollowFrom(ctx, "web:42", receipt.ID, shown, func(e session.Event) { fmt.Printf("%q\n", e.Text) })
	demo.Check(err)
	fmt.Println(outcome.Reply)
	// Output:
	// "good "
	// context canceled
	// "morning"
	// good morning
}

// A page shows all that happens in a session. It keeps the id of the last event for when it is
// reloaded.
func ExampleClient_Events() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, text := range []string{"good morning", "good night"} {
		receipt, err := client.Submit(ctx, "web:42", session.Message{Text: text})
		demo.Check(err)
		_, err = client.Wait(ctx, "web:42", receipt.ID)
		demo.Check(err)
	}
	shown, enough := "", errors.New("enough")
	next := func(e session.Event) error {
		shown = e.ID
		if e.Type != session.EventTurnEnded {
			return nil
		}
		fmt.Println(e.Reply)
		return enough
	}
	fmt.Println(client.Events(ctx, "web:42", "", next))
	fmt.Println(client.Events(ctx, "web:42", shown, next))
	// Output:
	// GOOD MORNING
	// enough
	// GOOD NIGHT
	// enough
}

func ExampleClient_Result() {
	started := make(chan struct{})
	rdb, stop := demo.Worker(demo.Endless(started))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Submit(ctx, "web:42", session.Message{Text: "count to infinity"})
	demo.Check(err)
	<-started
	_, ended, err := client.Result(ctx, "web:42", receipt.ID)
	fmt.Println(ended, err)
	_, _, err = client.Result(ctx, "web:42", "another")
	fmt.Println(errors.Is(err, turnstile.ErrUnknownMessage))
	// Output:
	// false <nil>
	// true
}
