package store_test

import (
	"context"
	"fmt"

	"turnstile"
	"turnstile/internal/http/store"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

func ExampleStore_TokensToday() {
	rdb, stop := demo.Worker(echo.New())
	defer stop()
	ctx, client, kept := context.Background(), turnstile.NewClient(rdb), store.New(rdb)
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: "one", Text: "usage=1200:350 hello"})
	demo.Check(err)
	_, err = client.Session("web:42").Wait(ctx, "one")
	demo.Check(err)
	var used *session.Usage
	for used == nil { // a worker writes them within a second
		used, err = kept.TokensToday(ctx)
		demo.Check(err)
	}
	fmt.Println(used.InputTokens, used.OutputTokens)
	// Output: 1200 350
}
