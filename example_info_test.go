package turnstile_test

import (
	"context"
	"errors"
	"fmt"

	"turnstile"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

func ExampleSession_Info() {
	started := make(chan struct{})
	rdb, stop := demo.Worker(demo.Endless(started))
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb).Session("web:42")
	_, err := chat.Send(ctx, turnstile.Message{ID: "one", Text: "count to infinity"})
	demo.Check(err)
	<-started
	info, err := chat.Info(ctx)
	demo.Check(err)
	fmt.Println(chat.Key(), info.Phase, info.Messages, info.Waiting)
	// Output: web:42 running [one] 0
}

// The next turn's agent learns from a note that the last turn was interrupted.
func ExampleSession_Info_resume() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb).Session("web:42")
	_, err := chat.Send(ctx, turnstile.Message{Text: "hello"})
	demo.Check(err)
	_, err = resume.Mark(ctx, rdb, chat.Key(), resume.ReasonRestart)
	demo.Check(err)
	info, err := chat.Info(ctx)
	demo.Check(err)
	fmt.Println(info.Resume.Pending, info.Resume.Reason)
	// Output: true restart_timeout
}

func ExampleSession_Transcript() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	say(ctx, client, "hello")
	page, err := client.Session("web:42").Transcript(ctx, turnstile.TranscriptQuery{})
	demo.Check(err)
	for _, e := range page.Entries {
		fmt.Println(e.Role, e.Text)
	}
	// Output:
	// user hello
	// assistant HELLO
}

// A page's EventID is where its events go on: a chat is shown once, and then followed.
func ExampleTranscriptPage() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	say(ctx, client, "hello")
	chat := client.Session("web:42")
	page, err := chat.Transcript(ctx, turnstile.TranscriptQuery{})
	demo.Check(err)
	for _, e := range page.Entries {
		fmt.Println(e.Role, e.Text)
	}
	say(ctx, client, "and then?")
	for e, err := range chat.Events(ctx, turnstile.EventsAfter(page.EventID)) {
		demo.Check(err)
		if e.Type == session.EventText {
			fmt.Println(e.Text)
		}
		if e.Type == session.EventTurnEnded {
			break
		}
	}
	// Output:
	// user hello
	// assistant HELLO
	// AND THEN?
}

// A page's Before is where the next older page ends.
func ExampleTranscriptQuery() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, text := range []string{"hello", "how are you?"} {
		say(ctx, client, text)
	}
	chat, q := client.Session("web:42"), turnstile.TranscriptQuery{Limit: 3}
	for {
		page, err := chat.Transcript(ctx, q)
		demo.Check(err)
		fmt.Println(len(page.Entries), page.Entries[0].Text)
		if q.ID, q.Before = page.ID, page.Before; q.Before == 0 {
			break
		}
	}
	all, err := chat.Transcript(ctx, turnstile.TranscriptQuery{Limit: session.NoLimit})
	demo.Check(err)
	fmt.Println(len(all.Entries))
	// Output:
	// 3 HELLO
	// 1 hello
	// 4
}

func ExampleClient_HasWorker() {
	rdb, stop := demo.Redis()
	defer stop()
	fmt.Println(turnstile.NewClient(rdb).HasWorker(context.Background()))
	// Output: false <nil>
}

// A handle costs nothing. A wrong key is the error of each call.
func ExampleClient_Session() {
	rdb, stop := demo.Redis()
	defer stop()
	_, err := turnstile.NewClient(rdb).Session("web/42").Info(context.Background())
	fmt.Println(errors.Is(err, session.ErrInvalid))
	// Output: true
}

func ExampleSession_Key() {
	rdb, stop := demo.Redis()
	defer stop()
	fmt.Println(turnstile.NewClient(rdb).Session("web:42").Key())
	// Output: web:42
}

// Cancel ends a message that waits, and no other.
func ExampleSession_Cancel() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, chat := context.Background(), turnstile.NewClient(rdb).Session("web:42")
	_, err := chat.Send(ctx, turnstile.Message{ID: "one", Text: "hello"})
	demo.Check(err)
	outcome, err := chat.Cancel(ctx, "one")
	fmt.Println(outcome.Status, err)
	// Output: stopped <nil>
}
