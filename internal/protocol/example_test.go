package protocol_test

import (
	"context"
	"fmt"
	"time"

	"turnstile"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/demo"
)

// The owner's moves, as pkg/worker makes them: claim, then finish each turn until the queue is
// empty.
func ExampleConsumer_Claim() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	client := actors.NewClient(rdb)
	for _, text := range []string{"one", "two"} {
		_, err := receipt.Input(ctx, client.Session("web:42"), turnstile.Message{Text: text})
		demo.Check(err)
	}
	consumer, err := actors.NewConsumer(rdb, protocol.Config{Worker: "example", Retention: time.Hour})
	demo.Check(err)
	sessions, err := consumer.Pop(ctx, 10)
	demo.Check(err)
	claims, err := consumer.Claim(ctx, sessions)
	demo.Check(err)
	for _, claim := range claims {
		for more := true; more; {
			demo.Check(claim.Promote(ctx))
			turn := claim.Turn()
			more, err = claim.Finish(ctx, protocol.End{
				Status: session.StatusDone, Reply: "heard " + turn.Message.Text,
				Entries: []session.Entry{{Role: session.RoleUser, Text: turn.Message.Text, Turn: turn.ID}},
			})
			demo.Check(err)
			fmt.Println(turn.Message.Text, "more:", more)
		}
	}
	// Output:
	// one more: true
	// two more: false
}
