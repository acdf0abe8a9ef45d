package admin_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/test/demo"
)

// stopped returns a Redis with two dead letters: Stop has archived two waiting messages.
func stopped(ctx context.Context, rdb redis.UniversalClient) {
	client := turnstile.NewClient(rdb)
	for _, id := range []string{"one", "two"} {
		_, err := client.Session("web:42").Send(ctx, turnstile.Message{ID: id, Text: "hello " + id})
		demo.Check(err)
	}
	_, err := client.Session("web:42").Stop(ctx)
	demo.Check(err)
}

func ExampleClient_DeadLetters() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	stopped(ctx, rdb)
	for letter, err := range admin.NewClient(rdb).DeadLetters(ctx, "web:42") {
		demo.Check(err)
		fmt.Println(letter.ID, letter.Text, letter.Outcome.Status)
	}
	// Output:
	// one hello one stopped
	// two hello two stopped
}

func ExampleClient_SessionsWithDeadLetters() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	stopped(ctx, rdb)
	for key, err := range admin.NewClient(rdb).SessionsWithDeadLetters(ctx) {
		demo.Check(err)
		fmt.Println(key)
	}
	// Output: web:42
}

func ExampleClient_Rerun() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	stopped(ctx, rdb)
	n, err := operator.Rerun(ctx, "web:42")
	demo.Check(err)
	info, err := turnstile.NewClient(rdb).Session("web:42").Info(ctx)
	demo.Check(err)
	fmt.Println(n, info.Pending, info.Archived)
	// Output: 2 2 0
}

func ExampleClient_RerunMessages() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	stopped(ctx, rdb)
	n, err := operator.RerunMessages(ctx, "web:42", "two")
	demo.Check(err)
	next, err := operator.NextMessage(ctx, "web:42")
	demo.Check(err)
	fmt.Println(n, next)
	// Output: 1 two
}

// The cap of the line is the same as that of senders and workers.
func ExampleNewClientWith() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	stopped(ctx, rdb)
	n, err := admin.NewClientWith(rdb, admin.ClientConfig{LineCap: 1}).Rerun(ctx, "web:42")
	fmt.Println(n, err)
	// Output: 1 <nil>
}

func ExampleClient_DeleteDeadLetters() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	stopped(ctx, rdb)
	n, err := operator.DeleteDeadLetters(ctx, "web:42", "one")
	fmt.Println(n, err)
	n, err = operator.DeleteDeadLetters(ctx, "web:42")
	fmt.Println(n, err)
	// Output:
	// 1 <nil>
	// 1 <nil>
}

func ExampleClient_Erase() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	stopped(ctx, rdb)
	demo.Check(admin.NewClient(rdb).Erase(ctx, "web:42"))
	fmt.Println(rdb.DBSize(ctx).Val(), "keys")
	// Output: 0 keys
}
