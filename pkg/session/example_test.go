package session_test

import (
	"errors"
	"fmt"
	"time"

	"turnstile/pkg/session"
)

func ExampleValidateKey() {
	fmt.Println(session.ValidateKey("agent:main:telegram:dm:42"))
	err := session.ValidateKey("telegram/42")
	fmt.Println(errors.Is(err, session.ErrInvalid), err)
	// Output:
	// <nil>
	// true invalid session key "telegram/42": use letters, digits and ._:@+=~- only, the first a letter or digit
}

func ExampleValidateID() {
	fmt.Println(session.ValidateID(""))
	// Output: invalid message id: it is empty
}

func ExampleQuestion_ID() {
	q := session.Question{Turn: "7c4a8d09-1795227266293", Number: 1, Name: "run make"}
	fmt.Println(q.ID())
	// Output: 7c4a8d09-1795227266293.1
}

func ExampleInfo_Left() {
	began := time.Date(2026, 11, 27, 21, 0, 0, 0, time.UTC)
	info := session.Info{Phase: session.PhaseParked, StartedAt: began, Running: 10 * time.Minute, Until: began.Add(2 * time.Hour)}
	fmt.Println(info.Left())
	// Output: 1h50m0s
}

func ExampleEvent_Question() {
	asked := session.Event{Type: session.EventQuestionAsked, Turn: "7c4a8d09-1795227266293", CallID: "1", Name: "run make"}
	q, ok := asked.Question()
	fmt.Println(q.ID(), q.Name, ok)
	_, ok = session.Event{Type: session.EventQuestionAnswered, CallID: "1"}.Question()
	fmt.Println(ok)
	// Output:
	// 7c4a8d09-1795227266293.1 run make true
	// false
}

func ExampleDecision_Allowed() {
	fmt.Println(session.Allow.Allowed(), session.Always.Allowed(), session.Deny.Allowed())
	// Output: true true false
}

// Limits of zero mean the defaults.
func ExampleLimits_WithDefaults() {
	l := session.Limits{Queue: 3}.WithDefaults()
	fmt.Println(l.MessageBytes, l.Queue, l.AllQueues == session.NoLimit, l.Outbox, l.Destination)
	// Output: 2097152 3 true 1000 1000000
}

func ExampleUsage_Plus() {
	first := session.Usage{InputTokens: 100, OutputTokens: 20}
	fmt.Printf("%+v\n", first.Plus(session.Usage{Model: "m", InputTokens: 10, OutputTokens: 1}).OutputTokens)
	// Output: 21
}

func ExampleOutcome_Why() {
	o := session.Outcome{Status: session.StatusFailed, Error: "the agent failed", Code: session.CodeAgentFailed, Detail: "exit status 1: no such model"}
	e := session.Event{Type: session.EventTurnRetry, Error: o.Error, Detail: o.Detail}
	fmt.Println("for users:", o.Error)
	fmt.Println("for operators:", o.Why())
	fmt.Println("of an event:", e.Why())
	// Output:
	// for users: the agent failed
	// for operators: exit status 1: no such model
	// of an event: exit status 1: no such model
}

func ExampleOutcome_Err() {
	fmt.Println(session.Outcome{ID: "one", Status: session.StatusDone, Reply: "hello"}.Err())
	fmt.Println(session.Outcome{ID: "two", Status: session.StatusFailed, Error: "the agent failed"}.Err())
	// Output:
	// <nil>
	// message two: failed: the agent failed
}

// A chat's own interface asks whether somebody may decide a question.
func ExampleQuestion_MayDecide() {
	if err := session.ValidateApprovers([]string{"ops/*", "sender"}); err != nil {
		fmt.Println(err)
	}
	q := session.Question{Name: "deploy", Approvers: []string{"ops/*"}, Senders: []string{"web/alice"}}
	fmt.Println(q.MayDecide("web/alice"), q.MayDecide("ops/carol"))
	// Output: false true
}
