package store_test

import (
	"context"
	"fmt"
	"strings"

	"turnstile"
	"turnstile/internal/http/store"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

func ExampleStore_AllEvents() {
	rdb, stop := demo.Worker(echo.New())
	defer stop()
	ctx, client, kept := context.Background(), turnstile.NewClient(rdb), store.New(rdb)
	ofTheWeb := func(sessionKey string) bool { return strings.HasPrefix(sessionKey, "web:") }
	_ = kept.AllEvents(ctx, 0, ofTheWeb, func(e store.AnyEvent) error {
		switch e.Type {
		case session.EventPlace: // it follows from here on
			_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: "one", Text: "hello"})
			return err
		case session.EventTurnEnded:
			fmt.Println(e.Session, e.Reply)
			return context.Canceled // enough
		}
		return nil
	})
	// Output: web:42 echo: hello
}
