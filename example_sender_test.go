package turnstile_test

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/test/demo"
)

// send is the code in README and docs/library.md.
func send(ctx context.Context, rdb redis.UniversalClient) error {
	chat := turnstile.NewClient(rdb).Session("web:42") // rdb is a go-redis v9 client
	sent, err := chat.Send(ctx, turnstile.Message{ID: "update-1001", Text: "hello"})
	if err != nil {
		return err // refused (ErrRefused) or sent before (ErrExpired); else send it again with the same ID
	}
	outcome, err := chat.Wait(ctx, sent.ID)
	fmt.Println(outcome.Reply)
	return cmp.Or(err, outcome.Err()) // nil if the turn succeeded
}

// A program that sends a message and waits for the reply. A repeated message runs once.
func Example_sender() {
	rdb, stop := demo.Worker(demo.Shout())
	defer stop()
	for range 2 {
		if err := send(context.Background(), rdb); err != nil {
			panic(err)
		}
	}
	// Output:
	// HELLO
	// HELLO
}
