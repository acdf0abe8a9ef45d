package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// Stop ends the running turn and archives the waiting messages.
func ExampleSession_Stop() {
	started := make(chan struct{})
	rdb, stop := demo.Worker(demo.Endless(started))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, id := range []string{"one", "two"} {
		_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: id, Text: "count to infinity"})
		demo.Check(err)
		if id == "one" {
			<-started
		}
	}
	stopped, err := client.Session("web:42").Stop(ctx)
	demo.Check(err)
	fmt.Println(stopped.Phase, stopped.Dropped)
	for _, id := range []string{"one", "two"} {
		outcome, err := client.Session("web:42").Wait(ctx, id)
		demo.Check(err)
		fmt.Println(id, outcome.Status)
	}
	// Output:
	// running 1
	// one stopped
	// two stopped
}

// Cancel ends one message. Later ones run.
func ExampleSession_CancelTurn() {
	started := make(chan struct{})
	rdb, stop := demo.Worker(demo.Endless(started))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, id := range []string{"one", "two"} {
		_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: id, Text: "count to infinity"})
		demo.Check(err)
		if id == "one" {
			<-started
		}
	}
	outcome, err := client.Session("web:42").Cancel(ctx, "two")
	demo.Check(err)
	fmt.Println("two", outcome.Status)
	_, err = client.Session("web:42").Cancel(ctx, "one")
	fmt.Println(errors.Is(err, session.ErrRunning))
	demo.Check(client.Session("web:42").CancelTurn(ctx, "one"))
	outcome, err = client.Session("web:42").Wait(ctx, "one")
	demo.Check(err)
	fmt.Println("one", outcome.Status)
	// Output:
	// two stopped
	// true
	// one stopped
}

func ExampleSession_Undo() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	say(ctx, client, "hello")
	undone, err := client.Session("web:42").Undo(ctx)
	demo.Check(err)
	fmt.Println(undone.Text, undone.Entries)
	_, err = client.Session("web:42").Undo(ctx)
	fmt.Println(errors.Is(err, session.ErrNoTurn))
	// Output:
	// hello 2
	// true
}

// say sends a message and waits for its end.
func say(ctx context.Context, client *turnstile.Client, text string) session.Outcome {
	receipt, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: text})
	demo.Check(err)
	outcome, err := client.Session("web:42").Wait(ctx, receipt.ID)
	demo.Check(err)
	return outcome
}

// Retry removes the last turn and runs its message again.
func ExampleSession_Retry() {
	replies := make(chan string, 2)
	replies <- "a poor reply"
	replies <- "a better reply"
	ended := make(chan string, 2)
	rdb, stop := demo.Worker(agent.Func(func(context.Context, *agent.Turn) (agent.Result, error) {
		reply := <-replies
		ended <- reply
		return agent.Result{Text: reply}, nil
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	say(ctx, client, "hello")
	fmt.Println(<-ended)
	undone, err := client.Session("web:42").Retry(ctx)
	demo.Check(err)
	fmt.Println(undone.Text)
	fmt.Println(<-ended)
	// Output:
	// a poor reply
	// hello
	// a better reply
}

// NewTranscript replaces only the given transcript, so a repeated call changes nothing.
func ExampleSession_NewTranscript() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	first, err := client.Session("web:42").NewTranscript(ctx)
	demo.Check(err)
	second, err := client.Session("web:42").NewTranscript(ctx, turnstile.TranscriptConfig{Replaces: first})
	demo.Check(err)
	again, err := client.Session("web:42").NewTranscript(ctx, turnstile.TranscriptConfig{Replaces: first})
	demo.Check(err)
	fmt.Println(second == first, again == second)
	// Output: false true
}

func ExampleSession_SetTitle() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	demo.Check(client.Session("web:42").SetTitle(ctx, "Holidays"))
	info, err := turnstile.NewClient(rdb).Session("web:42").Info(ctx)
	demo.Check(err)
	fmt.Println(info.Title, "by the", info.TitleBy)
	// Output: Holidays by the user
}

// Messages that arrive while a turn runs are collected into one turn, 2 s after the last.
func ExampleSession_SetQueue() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	demo.Check(client.Session("web:42").SetQueue(ctx, session.QueueSettings{Mode: session.ModeCollect, Debounce: session.Millis(2 * time.Second)}))
	info, err := turnstile.NewClient(rdb).Session("web:42").Info(ctx)
	demo.Check(err)
	fmt.Println(info.Queue)
	// Output: collect debounce:2s
}

// The agent asks before it does something, and the user allows it.
func ExampleSession_Decide() {
	rdb, stop := demo.Worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		answer, err := turn.Ask(ctx, agent.Question{Name: "deploy", Text: "to production"})
		return agent.Result{Text: fmt.Sprint("deployed: ", answer.Allowed())}, err
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "go live"})
	demo.Check(err)
	for e, err := range client.Session("web:42").Events(ctx, turnstile.EventsOf(receipt.ID)) {
		demo.Check(err)
		if e.Type == session.EventQuestionAsked {
			question, err := client.Session("web:42").Decide(ctx, "", session.Allow)
			demo.Check(err)
			fmt.Println(question.Name, question.Text)
		}
	}
	outcome, err := client.Session("web:42").Wait(ctx, receipt.ID)
	demo.Check(err)
	fmt.Println(outcome.Reply)
	// Output:
	// deploy to production
	// deployed: true
}

// The decision's event names who decided.
func ExampleSession_As() {
	rdb, stop := demo.Worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		_, err := turn.Ask(ctx, agent.Question{Name: "deploy", Text: "to production"})
		return agent.Result{}, err
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "go live"})
	demo.Check(err)
	for e, err := range client.Session("web:42").Events(ctx, turnstile.EventsOf(receipt.ID)) {
		demo.Check(err)
		switch e.Type {
		case session.EventQuestionAsked:
			_, err := client.Session("web:42").As("alice").Command(ctx, "/deny")
			demo.Check(err)
		case session.EventQuestionAnswered:
			fmt.Println(e.Decision, "by", e.By)
		}
	}
	// Output: deny by alice
}

// A question's ID never matches another question, even if the decision is late.
func ExampleSession_Decide_byID() {
	rdb, stop := demo.Worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		answer, err := turn.Ask(ctx, agent.Question{Name: "deploy", Text: "to production"})
		return agent.Result{Text: fmt.Sprint("deployed: ", answer.Allowed())}, err
	}))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	receipt, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "go live"})
	demo.Check(err)
	for e, err := range client.Session("web:42").Events(ctx, turnstile.EventsOf(receipt.ID)) {
		demo.Check(err)
		if e.Type == session.EventQuestionAsked {
			question, err := client.Session("web:42").Decide(ctx, e.Turn+"."+e.CallID, session.Allow)
			demo.Check(err)
			fmt.Println(question.Name, question.Text)
		}
	}
	outcome, err := client.Session("web:42").Wait(ctx, receipt.ID)
	demo.Check(err)
	fmt.Println(outcome.Reply)
	// Output:
	// deploy to production
	// deployed: true
}
