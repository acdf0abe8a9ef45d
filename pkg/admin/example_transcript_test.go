package admin_test

import (
	"context"
	"fmt"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

func ExampleClient_Transcript() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	say(ctx, turnstile.NewClient(rdb), "hello")
	info, err := operator.Session(ctx, "web:42")
	demo.Check(err)
	entries, err := operator.Transcript(ctx, "web:42", info.SessionID)
	demo.Check(err)
	for _, e := range entries {
		fmt.Println(e.Role, e.Text)
	}
	// Output:
	// user hello
	// assistant HELLO
}

// say sends a message and waits for its end.
func say(ctx context.Context, client *turnstile.Client, text string) {
	receipt, err := client.Submit(ctx, "web:42", session.Message{Text: text})
	demo.Check(err)
	_, err = client.Wait(ctx, "web:42", receipt.ID)
	demo.Check(err)
}

func ExampleClient_Tail() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx := context.Background()
	for _, text := range []string{"hello", "how are you?"} {
		say(ctx, turnstile.NewClient(rdb), text)
	}
	entries, err := admin.NewClient(rdb).Tail(ctx, "web:42", 1)
	demo.Check(err)
	fmt.Println(len(entries), entries[0].Text)
	// Output: 1 HOW ARE YOU?
}

func ExampleClient_TranscriptPage() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	for _, text := range []string{"hello", "how are you?"} {
		say(ctx, turnstile.NewClient(rdb), text)
	}
	info, err := operator.Session(ctx, "web:42")
	demo.Check(err)
	for before := int64(-1); before != 0; {
		entries, older, err := operator.TranscriptPage(ctx, "web:42", info.SessionID, before, 3)
		demo.Check(err)
		fmt.Println(len(entries), entries[0].Text)
		before = older
	}
	// Output:
	// 3 HELLO
	// 1 hello
}

// The next turn's agent learns from a note that the last turn was interrupted.
func ExampleClient_ResumeRecord() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	_, err := turnstile.NewClient(rdb).Submit(ctx, "web:42", session.Message{Text: "hello"})
	demo.Check(err)
	_, err = resume.Mark(ctx, rdb, "web:42", resume.ReasonRestart)
	demo.Check(err)
	record, err := admin.NewClient(rdb).ResumeRecord(ctx, "web:42")
	demo.Check(err)
	fmt.Println(record.Pending, record.Reason)
	// Output: true restart_timeout
}
