package resume_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// redisForExample starts a Redis inside this process, in which a session has had a turn.
func redisForExample(session string) (rdb *redis.Client, done func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	server.HSet(rediskey.For(session).Record(), "session_id", "s1")
	return rdb, func() {
		_ = rdb.Close()
		server.Close()
	}
}

// The next turn of a marked session begins with this note.
func Example() {
	rdb, done := redisForExample("web:42")
	defer done()
	ctx := context.Background()

	if _, err := resume.Mark(ctx, rdb, "web:42", resume.ReasonShutdown); err != nil {
		panic(err)
	}
	record, err := resume.Read(ctx, rdb, "web:42")
	if err != nil {
		panic(err)
	}
	fmt.Printf("%q\n", resume.Note(resume.Facts{Record: record, Freshness: time.Hour}))
	// Output:
	// "[System note: Your previous turn was interrupted by a gateway shutdown: the worker that ran it was shut down. The conversation history is intact. If it holds tool results that were not dealt with, deal with them first and summarise what was done; then turn to the new message below, which may be the one that the interrupted turn was about.]"
}

// A session that never had a turn is not marked.
func ExampleMark() {
	rdb, done := redisForExample("web:42")
	defer done()
	for _, session := range []string{"web:42", "web:unknown"} {
		marked, err := resume.Mark(context.Background(), rdb, session, "it rained")
		fmt.Println(session, marked, err)
	}
	// Output:
	// web:42 true <nil>
	// web:unknown false <nil>
}

func ExampleRead() {
	rdb, done := redisForExample("web:42")
	defer done()
	ctx := context.Background()
	if _, err := resume.Mark(ctx, rdb, "web:42", ""); err != nil {
		panic(err)
	}
	record, err := resume.Read(ctx, rdb, "web:42")
	fmt.Println(record.Pending, record.Reason, record.Interruptions, err)
	// Output: true restart_timeout 0 <nil>
}

func ExampleClear() {
	rdb, done := redisForExample("web:42")
	defer done()
	ctx := context.Background()
	if _, err := resume.Mark(ctx, rdb, "web:42", ""); err != nil {
		panic(err)
	}
	for range 2 {
		cleared, err := resume.Clear(ctx, rdb, "web:42")
		fmt.Println(cleared, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

// A suspended session's mark has no effect: the next message begins another transcript.
func ExampleSuspend() {
	rdb, done := redisForExample("web:42")
	defer done()
	ctx := context.Background()
	if _, err := resume.Mark(ctx, rdb, "web:42", ""); err != nil {
		panic(err)
	}
	suspended, err := resume.Suspend(ctx, rdb, "web:42")
	if err != nil {
		panic(err)
	}
	record, err := resume.Read(ctx, rdb, "web:42")
	fmt.Println(suspended, record.Pending, record.Fresh(time.Hour), err)
	// Output: true true false <nil>
}

// A mark gets a note up to an age, in a session that is not suspended.
func ExampleRecord_Fresh() {
	record := resume.Record{Pending: true, Age: 2 * time.Hour}
	fmt.Println(record.Fresh(time.Hour), record.Fresh(24*time.Hour), record.Fresh(0))
	// Output: false true true
}

func ExampleNote() {
	fmt.Println(resume.Note(resume.Facts{
		History: []session.Entry{
			{Role: session.RoleUser, Text: "Clean up."},
			{Role: session.RoleTool, Tool: &session.ToolUse{Name: "rm", Output: []byte(`"ok"`)}},
		},
		Dropped: []string{"Are you there?", "Hello?\n\nHello?"},
	}))
	// Output:
	// [System note: The conversation history is intact and ends in a tool result that you haven't responded to yet. Deal with it first and summarise what was done; then turn to the new message below. 2 messages were dropped from the line while you were busy; you see here the beginning of each:
	// - "Are you there?"
	// - "Hello? Hello?"]
}
