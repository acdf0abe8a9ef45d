package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// upper replies with the turn's text in capitals.
type upper struct{}

func (upper) Run(ctx context.Context, turn agent.Turn, emit func(agent.Event)) (agent.Result, error) {
	for _, word := range strings.Fields(turn.Text()) {
		if ctx.Err() != nil {
			return agent.Result{}, context.Cause(ctx)
		}
		emit(agent.Event{Type: session.EventText, Text: strings.ToUpper(word) + " "})
	}
	return agent.Result{}, nil // the reply is what was emitted
}

func ExampleAgent() {
	turn := agent.Turn{Messages: []agent.Message{{Text: "hello world"}}}
	_, err := upper{}.Run(context.Background(), turn, func(e agent.Event) { fmt.Print(e.Text) })
	fmt.Println(err)
	// Output: HELLO WORLD <nil>
}

func ExampleTurn_Text() {
	turn := agent.Turn{Note: "[System note: be brief.]", Messages: []agent.Message{{Text: "Hi."}, {Text: "Are you there?"}}}
	fmt.Println(turn.Text())
	// Output:
	// [System note: be brief.]
	//
	// Hi.
	//
	// Are you there?
}

// An error is final unless it is marked.
func ExampleRetryable() {
	err := agent.Retryable(errors.New("the model is overloaded"))
	fmt.Println(err, agent.IsRetryable(err), agent.IsRetryable(errors.New("no")))
	// Output: the model is overloaded true false
}

func ExampleIsRetryable() {
	fmt.Println(agent.IsRetryable(fmt.Errorf("run: %w", agent.Retryable(errors.New("no answer")))))
	// Output: true
}

// A recap is for agents that take text only. It leaves out the oldest entries first.
func ExampleRecap() {
	fmt.Println(agent.Recap([]session.Entry{
		{Role: session.RoleUser, Text: "What is 6 times 7?"},
		{Role: session.RoleAssistant, Text: "42"},
	}, 1000))
	// Output:
	// [What was said in this conversation before, oldest first:]
	//
	// User: What is 6 times 7?
	//
	// Assistant: 42
	//
	// [End of what was said before. What follows is new.]
}

// counter is a warm agent: it counts its turns.
type counter struct{ asked int }

func (c *counter) Warm(context.Context, agent.Turn) (agent.Warm, error) { return c, nil }
func (c *counter) Signature() string                                    { return "counter" }
func (c *counter) Close() error                                         { fmt.Println("closed"); return nil }
func (c *counter) Run(context.Context, agent.Turn, func(agent.Event)) (agent.Result, error) {
	c.asked++
	return agent.Result{Text: fmt.Sprint("question ", c.asked)}, nil
}

func ExampleRunOnce() {
	result, err := agent.RunOnce(context.Background(), &counter{}, agent.Turn{}, func(agent.Event) {})
	fmt.Println(result.Text, err)
	// Output:
	// closed
	// question 1 <nil>
}

// An agent receives a steer when it can take a message in, and accepts it.
func ExampleNewSteer() {
	steers := make(chan agent.Steer, 1)
	steers <- agent.NewSteer(agent.Message{Text: "in French, please"}, func() { fmt.Println("accepted") })
	turn := agent.Turn{Steers: steers}
	select {
	case s := <-turn.Steers:
		fmt.Println(s.Message.Text)
		s.Accept()
	default: // nothing has arrived
	}
	// Output:
	// in French, please
	// accepted
}

// until is a lease that ends at a time.
type until time.Time

func (u until) Deadline() time.Time { return time.Time(u) }

// A worker hands its lease to the agent. Adapters that start processes end them with it.
func ExampleWithLease() {
	ctx := agent.WithLease(context.Background(), until(time.Unix(1_800_000_000, 0)))
	lease, ok := agent.LeaseFrom(ctx)
	fmt.Println(lease.Deadline().UTC(), ok)
	// Output: 2027-01-15 08:00:00 +0000 UTC true
}

func ExampleLeaseFrom() {
	_, ok := agent.LeaseFrom(context.Background())
	fmt.Println(ok)
	// Output: false
}

// Operators read the error, users the sentence.
func ExampleForUser() {
	err := agent.ForUser(errors.New("HTTP 413 from the model's server"), "the conversation is too long: /new begins a new one")
	fmt.Println(err)
	fmt.Println(agent.UserText(err))
	// Output:
	// HTTP 413 from the model's server
	// the conversation is too long: /new begins a new one
}
