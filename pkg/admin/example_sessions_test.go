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

func ExampleNewClient() {
	rdb, stop := demo.Redis()
	defer stop()
	operator := admin.NewClient(rdb)
	workers, err := operator.Workers(context.Background())
	fmt.Println(len(workers), err)
	// Output: 0 <nil>
}

// A Redis with a full memory returns an error.
func ExampleClient_Ping() {
	rdb, stop := demo.Redis()
	defer stop()
	fmt.Println(admin.NewClient(rdb).Ping(context.Background()))
	// Output: <nil>
}

// No worker runs here, so each message waits.
func ExampleClient_Sessions_busy() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for range 2 {
		_, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "hello"})
		demo.Check(err)
	}
	for s, err := range admin.NewClient(rdb).Sessions(ctx, admin.Query{State: admin.StateBusy}) {
		demo.Check(err)
		fmt.Println(s.Session, s.State, s.Waiting)
	}
	// Output: web:42 waiting 2
}

func ExampleSession_FollowUps() {
	started := make(chan struct{})
	rdb, stop := demo.Worker(demo.Endless(started))
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	_, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "count to infinity"})
	demo.Check(err)
	<-started
	_, err = client.Session("web:42").Send(ctx, turnstile.Message{ID: "two", Text: "by twos"})
	demo.Check(err)
	followups, err := admin.NewClient(rdb).Session("web:42").FollowUps(ctx)
	demo.Check(err)
	for _, f := range followups {
		fmt.Println(f.ID, f.Text, f.State)
	}
	// Output: two by twos pending
}

// If sessions wait for a free slot for long, there are too few workers.
func ExampleClient_Backlog() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, key := range []string{"web:1", "web:2"} {
		_, err := client.Session(key).Send(ctx, turnstile.Message{Text: "hello"})
		demo.Check(err)
	}
	backlog, err := admin.NewClient(rdb).Backlog(ctx)
	demo.Check(err)
	fmt.Println(backlog.Ready, backlog.Due)
	// Output: 2 0
}

func ExampleClient_CountSessions() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	for _, key := range []string{"web:1", "web:2"} {
		_, err := client.Session(key).Send(ctx, turnstile.Message{Text: "hello"})
		demo.Check(err)
	}
	all, attention, err := admin.NewClient(rdb).CountSessions(ctx)
	demo.Check(err)
	fmt.Println(all, attention)
	// Output: 2 0
}

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

// waiting starts a Redis without a worker, in which a message waits in each of the sessions.
func waiting(sessions ...string) (operator *admin.Client, stop func()) {
	rdb, stop := demo.Redis()
	client := turnstile.NewClient(rdb)
	for _, s := range sessions {
		_, err := client.Session(s).Send(context.Background(), turnstile.Message{ID: "one", Text: "hello"})
		demo.Check(err)
	}
	return admin.NewClient(rdb), stop
}

func ExampleQuery_Validate() {
	fmt.Println(admin.Query{Match: "web:*"}.Validate() == nil, admin.Query{Match: "no session"}.Validate() == nil)
	// Output: true false
}

func ExampleClient_Sessions() {
	operator, stop := waiting("web:42", "telegram:7")
	defer stop()
	for s, err := range operator.Sessions(context.Background(), admin.Query{Match: "web:*", OldestFirst: true}) {
		demo.Check(err)
		fmt.Println(s.Session, s.State, s.Waiting)
	}
	// Output: web:42 waiting 1
}

func ExampleClient_Page() {
	operator, stop := waiting("web:41", "web:42", "web:43", "telegram:7")
	defer stop()
	query := admin.Query{Prefix: "web:", Limit: 2}
	for {
		page, err := operator.Page(context.Background(), query)
		demo.Check(err)
		for _, s := range page.Sessions {
			fmt.Println(s.Session, s.State)
		}
		if query.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	// Output:
	// web:41 waiting
	// web:42 waiting
	// web:43 waiting
}

func ExampleSession_Info() {
	operator, stop := waiting("web:42")
	defer stop()
	s, err := operator.Session("web:42").Info(context.Background())
	demo.Check(err)
	fmt.Println(s.Session, s.State, s.Paused)
	// Output: web:42 waiting false
}

func ExampleSession_Key() {
	operator, stop := waiting()
	defer stop()
	fmt.Println(operator.Session("web:42").Key())
	// Output: web:42
}

// A handle costs nothing: a wrong key is the error of each call.
func ExampleClient_Session() {
	operator, stop := waiting()
	defer stop()
	_, err := operator.Session("no session").Info(context.Background())
	fmt.Println(errors.Is(err, session.ErrInvalid))
	// Output: true
}

func ExampleClient_Workers() {
	operator, stop := waiting()
	defer stop()
	workers, err := operator.Workers(context.Background())
	fmt.Println(len(workers), err)
	// Output: 0 <nil>
}

func ExampleSession_Turn() {
	started := make(chan struct{})
	rdb, stop := demo.Worker(demo.Endless(started))
	defer stop()
	ctx, operator := context.Background(), admin.NewClient(rdb)
	_, err := turnstile.NewClient(rdb).Session("web:42").Send(ctx, turnstile.Message{ID: "one", Text: "count to infinity"})
	demo.Check(err)
	<-started
	turn, err := operator.Session("web:42").Turn(ctx)
	demo.Check(err)
	for _, m := range turn.Messages {
		fmt.Println(m.ID, m.Text)
	}
	// Output: one count to infinity
}

func ExampleSession_LastDeadLetters() {
	operator, stop := waiting("web:42")
	defer stop()
	ctx := context.Background()
	letters, err := operator.Session("web:42").LastDeadLetters(ctx, 10)
	fmt.Println(len(letters), err)
	// Output: 0 <nil>
}
