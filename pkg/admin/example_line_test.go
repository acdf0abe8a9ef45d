package admin_test

import (
	"context"
	"fmt"
	"time"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/test/demo"
)

func ExampleSession_Queue() {
	rdb, stop := demo.Redis() // no worker, so messages wait
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, m := range []struct {
		text  string
		delay time.Duration
	}{{"tomorrow", 24 * time.Hour}, {"first", 0}, {"in an hour", time.Hour}, {"second", 0}, {"third", 0}} {
		_, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: m.text, Delay: m.delay})
		demo.Check(err)
	}
	for m, err := range admin.NewClient(rdb).Session("web:42").Queue(ctx) {
		demo.Check(err)
		fmt.Println(m.Text, m.State, !m.Due.IsZero())
	}
	// Output:
	// first pending false
	// second pending false
	// third pending false
	// in an hour scheduled true
	// tomorrow scheduled true
}
