package admin_test

import (
	"context"
	"fmt"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/test/demo"
)

// No worker runs here, so both sessions wait.
func ExampleClient_Scale() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, key := range []string{"web:42", "web:43"} {
		_, err := client.Session(key).Send(ctx, turnstile.Message{Text: "hello"})
		demo.Check(err)
	}
	s, err := admin.NewClient(rdb).Scale(ctx)
	demo.Check(err)
	fmt.Println(s.Waiting, s.Running, s.Slots, s.Agents["default"].Waiting)
	// Output: 2 0 0 2
}
