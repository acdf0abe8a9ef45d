package protocol_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
)

func redisForExample() (rdb redis.UniversalClient, done func()) {
	server, err := miniredis.Run() // a real program uses its Redis
	if err != nil {
		panic(err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return rdb, func() {
		_ = rdb.Close()
		server.Close()
	}
}

// A repeated message id is a no-op while the first one's result is kept, so a
// sender that does not know whether its call arrived repeats it.
func ExampleClient_Submit() {
	rdb, done := redisForExample()
	defer done()
	ctx := context.Background()
	client := actors.NewClient(rdb)
	for range 2 {
		r, err := client.Submit(ctx, "agent:main:telegram:dm:42", session.Message{ID: "update-1001", Text: "hello"})
		if err != nil {
			panic(err)
		}
		fmt.Println(r.Status, r.ID)
	}
	status, err := client.Submit(ctx, "agent:main:telegram:dm:42", session.Message{Text: "/status"})
	if err != nil {
		panic(err)
	}
	fmt.Println(status.Reply)
	// Output:
	// accepted update-1001
	// duplicate update-1001
	// Nothing runs yet, 1 waiting.
}

// The owner's moves, as internal/engine makes them: claim, then finish each turn until
// the line is empty.
func ExampleConsumer_Claim() {
	rdb, done := redisForExample()
	defer done()
	ctx := context.Background()
	client := actors.NewClient(rdb)
	for _, text := range []string{"one", "two"} {
		if _, err := client.Submit(ctx, "web:42", session.Message{Text: text}); err != nil {
			panic(err)
		}
	}
	consumer, err := actors.NewConsumer(rdb, protocol.Config{Worker: "example", Retention: time.Hour})
	if err != nil {
		panic(err)
	}
	sessions, err := consumer.Pop(ctx, 10)
	if err != nil {
		panic(err)
	}
	holds, err := consumer.Claim(ctx, sessions)
	if err != nil {
		panic(err)
	}
	for _, hold := range holds {
		for more := true; more; {
			if err := hold.Promote(ctx); err != nil {
				panic(err)
			}
			turn := hold.Turn()
			more, err = hold.Finish(ctx, protocol.End{
				Status: session.StatusDone, Reply: "heard " + turn.Message.Text,
				Entries: []session.Entry{{Role: session.RoleUser, Text: turn.Message.Text, Turn: turn.ID}},
			})
			if err != nil {
				panic(err)
			}
			fmt.Println(turn.Message.Text, "more:", more)
		}
	}
	// Output:
	// one more: true
	// two more: false
}
