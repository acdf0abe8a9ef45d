package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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

func ExampleParseMode() {
	mode, err := session.ParseMode("steer")
	fmt.Println(mode, err)
	_, err = session.ParseMode("stear")
	fmt.Println(err)
	// Output:
	// steer <nil>
	// invalid mode "stear": use queue, collect, steer, interrupt, rollback or reject
}

func ExampleQuestion_ID() {
	q := session.Question{Turn: "7c4a8d09-1795227266293", Number: 1, Name: "run make"}
	fmt.Println(q.ID())
	// Output: 7c4a8d09-1795227266293.1
}

func ExampleDecision_Allowed() {
	fmt.Println(session.Allow.Allowed(), session.Always.Allowed(), session.Deny.Allowed())
	// Output: true true false
}

func ExampleParseDropPolicy() {
	policy, err := session.ParseDropPolicy("summarize")
	fmt.Println(policy, err)
	// Output: summarize <nil>
}

func ExampleParseDuration() {
	d, err := session.ParseDuration("1d12h")
	fmt.Println(d, err)
	// Output: 36h0m0s <nil>
}

func ExampleParseQueueSettings() {
	s, err := session.ParseQueueSettings("collect debounce:2s cap:25")
	fmt.Println(s.Mode, time.Duration(s.Debounce), s.Cap, err)
	// Output: collect 2s 25 <nil>
}

func ExampleDefaultQueueSettings() {
	fmt.Println(session.DefaultQueueSettings())
	// Output: queue debounce:1s cap:100 drop:new
}

// A session's settings precede those of the worker.
func ExampleQueueSettings_Over() {
	s := session.QueueSettings{Mode: session.ModeCollect}.Over(session.DefaultQueueSettings())
	fmt.Println(s.Mode, s.Cap)
	// Output: collect 100
}

// A program without the library enqueues an asynq task with this payload.
func ExampleMessage_EncodePayload() {
	payload, err := session.Message{Text: "Is it done?", ExpiresIn: session.Duration(time.Hour)}.EncodePayload()
	fmt.Println(string(payload), err)
	// Output: {"v":1,"text":"Is it done?","expires_in":"1h0m0s"} <nil>
}

func ExampleDecodePayload() {
	m, err := session.DecodePayload([]byte(`{"v":1,"text":"Is it done?","mode":"interrupt"}`))
	fmt.Println(m.Text, m.Mode, err)
	_, err = session.DecodePayload([]byte(`{"v":1,"text":""}`))
	fmt.Println(err)
	// Output:
	// Is it done? interrupt <nil>
	// invalid message: its text is empty
}

func ExampleMessage_Validate() {
	m := session.Message{Text: "Look at this.", Attachments: []session.Attachment{{Name: "a.png"}}}
	fmt.Println(m.Validate())
	// Output: invalid attachment "a.png": give it a url or a path, one of the two
}

func ExampleLimits_Validate() {
	err := session.Limits{MessageBytes: 4}.Validate(session.Message{Text: "hello"})
	fmt.Println(errors.Is(err, session.ErrTooLarge), err)
	// Output: true invalid message: its text has 5 bytes, and a message may have 4 bytes in JSON; attach a file instead
}

// Limits of zero mean the defaults.
func ExampleLimits_WithDefaults() {
	l := session.Limits{Queue: 3}.WithDefaults()
	fmt.Println(l.MessageBytes, l.Queue, l.AllQueues == session.NoLimit, l.Outbox, l.Destination)
	// Output: 2097152 3 true 1000 1000000
}

// Limits also bound the payload.
func ExampleLimits_EncodePayload() {
	l := session.Limits{MessageBytes: 64}
	_, err := l.EncodePayload(session.Message{Text: strings.Repeat("x", 64)})
	fmt.Println(err)
	_, err = l.DecodePayload([]byte(`{"v":1,"text":"short"}`))
	fmt.Println(err)
	// Output:
	// invalid message: it has 81 bytes in JSON, at most 64 are allowed; attach files instead
	// <nil>
}

func ExampleDuration() {
	var m session.Message
	err := json.Unmarshal([]byte(`{"text":"a","expires_in":"30d"}`), &m)
	fmt.Println(time.Duration(m.ExpiresIn), err)
	// Output: 720h0m0s <nil>
}

func ExampleUsage_Plus() {
	first := session.Usage{InputTokens: 100, OutputTokens: 20}
	fmt.Printf("%+v\n", first.Plus(session.Usage{Model: "m", InputTokens: 10, OutputTokens: 1}).OutputTokens)
	// Output: 21
}

func ExampleValidateDestination() {
	fmt.Println(session.ValidateDestination("telegram-bot"))
	fmt.Println(session.ValidateDestination("https://bot.example"))
	// Output:
	// <nil>
	// invalid destination "https://bot.example": use up to 64 of a-z, 0-9, - and _, beginning with a letter or digit
}

func ExampleRoute_Validate() {
	fmt.Println(session.Route{To: "telegram-bot", Context: json.RawMessage(`{"chat":42}`)}.Validate())
	fmt.Println(session.Route{To: "telegram-bot", Context: json.RawMessage(`{"chat"`)}.Validate())
	// Output:
	// <nil>
	// invalid context: it is no JSON
}

func ExampleRoute_DeliverBy() {
	r, err := session.Route{To: "telegram-bot"}.DeliverBy("10m")
	fmt.Println(r.Within, err)
	_, err = r.DeliverBy("soon")
	fmt.Println(err)
	// Output:
	// 10m0s <nil>
	// invalid deliver_by "soon": write a time such as 2026-11-24T18:00:00Z, or a duration above 0 such as 10m
}

func ExampleTraceParent() {
	fmt.Println(session.TraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
	fmt.Printf("%q\n", session.TraceParent("00-nonsense"))
	// Output:
	// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
	// ""
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
