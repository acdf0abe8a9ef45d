package admin_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// talk has two sessions: one of Alice, and one of Alice and Bob.
func talk(ctx context.Context, rdb redis.UniversalClient) {
	for _, m := range [][2]string{{"dm:1", "web/alice"}, {"group:1", "web/alice"}, {"group:1", "web/bob"}} {
		_, err := turnstile.NewClient(rdb).Session(m[0]).Send(ctx, turnstile.Message{Text: "hello from " + m[1], Meta: map[string]string{"sender": m[1]}})
		demo.Check(err)
	}
}

func ExampleClient_SessionsOf() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	talk(ctx, rdb)
	for s, err := range admin.NewClient(rdb).SessionsOf(ctx, "web/alice") {
		demo.Check(err)
		fmt.Println(s.Session, s.Shared)
	}
	// Output:
	// dm:1 false
	// group:1 true
}

func ExampleSenderSession_Data() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	talk(ctx, rdb)
	for s, err := range admin.NewClient(rdb).SessionsOf(ctx, "web/alice") {
		demo.Check(err)
		for d, err := range s.Data(ctx) {
			demo.Check(err)
			fmt.Println(s.Session, d.State, d.Message.Text)
		}
	}
	// Output:
	// dm:1 pending hello from web/alice
	// group:1 pending hello from web/alice
}

func ExampleSenderSession_Erase() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx := context.Background()
	talk(ctx, rdb)
	for s, err := range admin.NewClient(rdb).SessionsOf(ctx, "web/alice") {
		demo.Check(err)
		err := s.Erase(ctx)
		fmt.Println(s.Session, err, errors.Is(err, session.ErrInvalid))
	}
	// Output:
	// dm:1 <nil> false
	// group:1 invalid erase: others have messages in session group:1, too true
}
