package store_test

import (
	"context"
	"fmt"
	"time"

	"turnstile/internal/http/store"
	"turnstile/test/demo"
)

func ExampleStore_NewTicket() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, kept := context.Background(), store.New(rdb)
	ticket, err := kept.NewTicket(ctx, "web:42", time.Minute)
	demo.Check(err)
	grant, ok, err := kept.RedeemTicket(ctx, ticket)
	fmt.Println(grant, ok, err)
	// Output: web:42 true <nil>
}

// A ticket is good once.
func ExampleStore_RedeemTicket() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, kept := context.Background(), store.New(rdb)
	ticket, err := kept.NewTicket(ctx, "web:42", time.Minute)
	demo.Check(err)
	for range 2 {
		_, ok, err := kept.RedeemTicket(ctx, ticket)
		demo.Check(err)
		fmt.Println(ok)
	}
	// Output:
	// true
	// false
}
