package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// Stop ends the running turn and archives the messages that wait behind it.
func ExampleClient_Stop() {
	started := make(chan struct{})
	rdb, stop := demo.Worker(demo.Endless(started))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, id := range []string{"one", "two"} {
		_, err := client.Submit(ctx, "web:42", session.Message{ID: id, Text: "count to infinity"})
		demo.Check(err)
		if id == "one" {
			<-started
		}
	}
	stopped, err := client.Stop(ctx, "web:42")
	demo.Check(err)
	fmt.Println(stopped.Phase, stopped.Dropped)
	for _, id := range []string{"one", "two"} {
		outcome, err := client.Wait(ctx, "web:42", id)
		demo.Check(err)
		fmt.Println(id, outcome.Status)
	}
	// Output:
	// running 1
	// one stopped
	// two stopped
}

// Cancel ends one message. What waits behind it runs.
func ExampleClient_Cancel() {
	started := make(chan struct{})
	rdb, stop := demo.Worker(demo.Endless(started))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, id := range []string{"one", "two"} {
		_, err := client.Submit(ctx, "web:42", session.Message{ID: id, Text: "count to infinity"})
		demo.Check(err)
		if id == "one" {
			<-started
		}
	}
	outcome, _, err := client.Cancel(ctx, "web:42", "two", false)
	demo.Check(err)
	fmt.Println("two", outcome.Status)
	_, _, err = client.Cancel(ctx, "web:42", "one", false)
	fmt.Println(errors.Is(err, session.ErrRunning))
	_, _, err = client.Cancel(ctx, "web:42", "one", true)
	demo.Check(err)
	outcome, err = client.Wait(ctx, "web:42", "one")
	demo.Check(err)
	fmt.Println("one", outcome.Status)
	// Output:
	// two stopped
	// true
	// one stopped
}

func ExampleClient_Undo() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	say(ctx, client, "hello")
	undone, err := client.Undo(ctx, "web:42")
	demo.Check(err)
	fmt.Println(undone.Text, undone.Entries)
	_, err = client.Undo(ctx, "web:42")
	fmt.Println(errors.Is(err, session.ErrNoTurn))
	// Output:
	// hello 2
	// true
}

// say sends a message and waits for its end.
func say(ctx context.Context, client *turnstile.Client, text string) session.Outcome {
	receipt, err := client.Submit(ctx, "web:42", session.Message{Text: text})
	demo.Check(err)
	outcome, err := client.Wait(ctx, "web:42", receipt.ID)
	demo.Check(err)
	return outcome
}

// Retry removes the last turn and runs its message again.
func ExampleClient_Retry() {
	replies := make(chan string, 2)
	replies <- "a poor reply"
	replies <- "a better reply"
	ended := make(chan string, 2)
	rdb, stop := demo.Worker(demo.Agent(func(context.Context, agent.Turn, func(agent.Event)) (agent.Result, error) {
		reply := <-replies
		ended <- reply
		return agent.Result{Text: reply}, nil
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	say(ctx, client, "hello")
	fmt.Println(<-ended)
	undone, err := client.Retry(ctx, "web:42")
	demo.Check(err)
	fmt.Println(undone.Text)
	fmt.Println(<-ended)
	// Output:
	// a poor reply
	// hello
	// a better reply
}

// Rotate replaces the session id that it is given, so a repeated call changes nothing.
func ExampleClient_Rotate() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	first, err := client.Rotate(ctx, "web:42", "")
	demo.Check(err)
	second, err := client.Rotate(ctx, "web:42", first)
	demo.Check(err)
	again, err := client.Rotate(ctx, "web:42", first)
	demo.Check(err)
	fmt.Println(second == first, again == second)
	// Output: false true
}

func ExampleClient_SetTitle() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	demo.Check(client.SetTitle(ctx, "web:42", "Holidays"))
	info, err := admin.NewClient(rdb).Session(ctx, "web:42")
	demo.Check(err)
	fmt.Println(info.Title, "by the", info.TitleBy)
	// Output: Holidays by the user
}

// Messages that arrive while a turn runs are collected into one turn, 2 s after the last.
func ExampleClient_Configure() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	demo.Check(client.Configure(ctx, "web:42", session.QueueSettings{Mode: session.ModeCollect, Debounce: session.Millis(2 * time.Second)}))
	info, err := admin.NewClient(rdb).Session(ctx, "web:42")
	demo.Check(err)
	fmt.Println(info.Settings)
	// Output: collect debounce:2s
}

// The agent asks before it does something, and the user allows it.
func ExampleClient_Decide() {
	rdb, stop := demo.Worker(demo.Agent(func(ctx context.Context, turn agent.Turn, _ func(agent.Event)) (agent.Result, error) {
		answer, err := turn.Ask(ctx, agent.Question{Name: "deploy", Text: "to production"})
		return agent.Result{Text: fmt.Sprint("deployed: ", answer.Allowed)}, err
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Submit(ctx, "web:42", session.Message{Text: "go live"})
	demo.Check(err)
	outcome, err := client.Follow(ctx, "web:42", receipt.ID, func(e session.Event) {
		if e.Type == session.EventPermissionAsked {
			question, err := client.Decide(ctx, "web:42", 0, session.Allow)
			demo.Check(err)
			fmt.Println(question.Name, question.Text)
		}
	})
	demo.Check(err)
	fmt.Println(outcome.Reply)
	// Output:
	// deploy to production
	// deployed: true
}

// The decision's event names who decided.
func ExampleBy() {
	rdb, stop := demo.Worker(demo.Agent(func(ctx context.Context, turn agent.Turn, _ func(agent.Event)) (agent.Result, error) {
		_, err := turn.Ask(ctx, agent.Question{Name: "deploy", Text: "to production"})
		return agent.Result{}, err
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Submit(ctx, "web:42", session.Message{Text: "go live"})
	demo.Check(err)
	_, err = client.Follow(ctx, "web:42", receipt.ID, func(e session.Event) {
		switch e.Type {
		case session.EventPermissionAsked:
			_, err := client.Submit(turnstile.By(ctx, "alice"), "web:42", session.Message{Text: "/deny"})
			demo.Check(err)
		case session.EventPermissionAnswered:
			fmt.Println(e.Decision, "by", e.By)
		}
	})
	demo.Check(err)
	// Output: denied by alice
}

// The id of a question fits no other, however late the decision arrives.
func ExampleClient_DecideQuestion() {
	rdb, stop := demo.Worker(demo.Agent(func(ctx context.Context, turn agent.Turn, _ func(agent.Event)) (agent.Result, error) {
		answer, err := turn.Ask(ctx, agent.Question{Name: "deploy", Text: "to production"})
		return agent.Result{Text: fmt.Sprint("deployed: ", answer.Allowed)}, err
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Submit(ctx, "web:42", session.Message{Text: "go live"})
	demo.Check(err)
	outcome, err := client.Follow(ctx, "web:42", receipt.ID, func(e session.Event) {
		if e.Type == session.EventPermissionAsked {
			question, err := client.DecideQuestion(ctx, "web:42", e.Turn+"."+e.CallID, session.Allow)
			demo.Check(err)
			fmt.Println(question.Name, question.Text)
		}
	})
	demo.Check(err)
	fmt.Println(outcome.Reply)
	// Output:
	// deploy to production
	// deployed: true
}
