package admin_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
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

func ExampleSession_DeadLetters() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	stopped(ctx, rdb)
	for letter, err := range admin.NewClient(rdb).Session("web:42").DeadLetters(ctx) {
		demo.Check(err)
		fmt.Println(letter.ID, letter.Text, letter.Outcome.Status)
	}
	// Output:
	// one hello one stopped
	// two hello two stopped
}

// rerunAll reruns the dead letters of all sessions.
func rerunAll(ctx context.Context, operator *admin.Client) error {
	for s, err := range operator.Sessions(ctx, admin.Query{State: admin.StateDeadLetters}) {
		if err != nil {
			return err
		}
		if _, err := operator.Session(s.Session).Rerun(ctx, admin.All); err != nil {
			return err
		}
	}
	return nil
}

func ExampleClient_Sessions_deadLetters() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	stopped(ctx, rdb)
	demo.Check(rerunAll(ctx, operator))
	s, err := operator.Session("web:42").Info(ctx)
	demo.Check(err)
	fmt.Println(s.State, s.Waiting, s.DeadLetters)
	// Output: waiting 2 0
}

func ExampleSession_Rerun() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	stopped(ctx, rdb)
	n, err := operator.Session("web:42").Rerun(ctx, admin.All)
	demo.Check(err)
	info, err := turnstile.NewClient(rdb).Session("web:42").Info(ctx)
	demo.Check(err)
	fmt.Println(n, info.Waiting, info.DeadLetters)
	// Output: 2 2 0
}

func ExampleSession_Rerun_one() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	stopped(ctx, rdb)
	n, err := operator.Session("web:42").Rerun(ctx, "two")
	demo.Check(err)
	fmt.Println(n)
	for m, err := range operator.Session("web:42").Queue(ctx) {
		demo.Check(err)
		fmt.Println(m.ID, m.State)
	}
	// Output:
	// 1
	// two pending
}

// The cap of the queue is the same as that of senders and workers.
func ExampleConfig() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	stopped(ctx, rdb)
	n, err := admin.NewClient(rdb, admin.Config{Limits: session.Limits{Queue: 1}}).Session("web:42").Rerun(ctx, admin.All)
	fmt.Println(n, err)
	// Output: 1 <nil>
}

func ExampleSession_DeleteDeadLetters() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	stopped(ctx, rdb)
	n, err := operator.Session("web:42").DeleteDeadLetters(ctx, "one")
	fmt.Println(n, err)
	n, err = operator.Session("web:42").DeleteDeadLetters(ctx, admin.All)
	fmt.Println(n, err)
	// Output:
	// 1 <nil>
	// 1 <nil>
}

func ExampleSession_Erase() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	stopped(ctx, rdb)
	demo.Check(admin.NewClient(rdb).Session("web:42").Erase(ctx))
	fmt.Println(rdb.DBSize(ctx).Val(), "keys")
	// Output: 0 keys
}
