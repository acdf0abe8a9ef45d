package admin_test

import (
	"context"
	"fmt"
	"strings"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

func ExampleClient_AllEvents() {
	rdb, stop := demo.Worker(echo.New())
	defer stop()
	ctx, client, operator := context.Background(), turnstile.NewClient(rdb), admin.NewClient(rdb)
	ofTheWeb := func(sessionKey string) bool { return strings.HasPrefix(sessionKey, "web:") }
	_ = operator.AllEvents(ctx, 0, ofTheWeb, func(e admin.AnyEvent) error {
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
