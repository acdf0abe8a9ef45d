package store_test

import (
	"context"
	"fmt"

	"turnstile"
	"turnstile/internal/http/store"
	"turnstile/test/actors"
	"turnstile/test/demo"
)

// A session for one question. It is erased after the end of its message.
func ExampleStore_MakeTemporary() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, kept := context.Background(), store.New(rdb)
	demo.Check(kept.MakeTemporary(ctx, "question:1"))
	client := turnstile.NewClient(rdb)
	receipt, err := client.Session("question:1").Send(ctx, turnstile.Message{Text: "hello"})
	demo.Check(err)
	erase := func() {
		n, _, err := kept.EraseTemporary(ctx, 0)
		fmt.Println("erased:", n, err)
	}
	erase() // the first call only sets the time from which the next one may erase it
	erase() // a message waits
	_, _, err = actors.Cancel(ctx, client.Session("question:1"), receipt.ID, false)
	demo.Check(err)
	erase()
	// Output:
	// erased: 0 <nil>
	// erased: 0 <nil>
	// erased: 1 <nil>
}

// A program that serves temporary sessions calls it from time to time. The message of this one
// waits.
func ExampleStore_EraseTemporary() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, kept := context.Background(), store.New(rdb)
	for _, key := range []string{"question:1", "question:2"} { // the second one never gets a message
		demo.Check(kept.MakeTemporary(ctx, key))
	}
	_, err := turnstile.NewClient(rdb).Session("question:1").Send(ctx, turnstile.Message{Text: "hello"})
	demo.Check(err)
	for range 2 {
		n, more, err := kept.EraseTemporary(ctx, 0)
		fmt.Println(n, more, err)
	}
	// Output:
	// 0 false <nil>
	// 1 false <nil>
}
