package admin_test

import (
	"context"
	"fmt"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

func ExampleSession_Audit() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	err := turnstile.NewClient(rdb).Session("web:42").As("bot/alice").SetQueue(ctx, session.QueueSettings{Cap: 5})
	demo.Check(err)
	list, err := admin.NewClient(rdb).Session("web:42").Audit(ctx)
	demo.Check(err)
	for _, e := range list {
		fmt.Println(e.By, e.Did, e.What)
	}
	// Output:
	// bot/alice queue {"cap":5}
}

func ExampleSession_As() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	stopped(ctx, rdb)
	operated := admin.NewClient(rdb).Session("web:42").As("carol")
	_, err := operated.Rerun(ctx, admin.All)
	demo.Check(err)
	list, err := operated.Audit(ctx)
	demo.Check(err)
	last := list[len(list)-1]
	fmt.Println(last.By, last.Did, last.What)
	// Output: carol rerun 2
}
