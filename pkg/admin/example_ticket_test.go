package admin_test

import (
	"context"
	"fmt"
	"time"

	"turnstile/pkg/admin"
	"turnstile/test/demo"
)

func ExampleClient_NewTicket() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	ticket, err := operator.NewTicket(ctx, "web:42", time.Minute)
	demo.Check(err)
	grant, ok, err := operator.RedeemTicket(ctx, ticket)
	fmt.Println(grant, ok, err)
	// Output: web:42 true <nil>
}

// A ticket is good once.
func ExampleClient_RedeemTicket() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	ticket, err := operator.NewTicket(ctx, "web:42", time.Minute)
	demo.Check(err)
	for range 2 {
		_, ok, err := operator.RedeemTicket(ctx, ticket)
		demo.Check(err)
		fmt.Println(ok)
	}
	// Output:
	// true
	// false
}
