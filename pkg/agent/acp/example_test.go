package acp_test

import (
	"context"
	"fmt"
	"os"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/acp"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// echoAgent is the command of an agent that speaks the protocol and repeats its input. Use a real
// one in its place, such as `opencode acp`.
func echoAgent() []string {
	self, err := os.Executable()
	demo.Check(err)
	return []string{self, "test-agent", "echo"}
}

func show(e agent.Event) {
	if e.Type == session.EventText {
		fmt.Println(e.Text)
	}
}

func say(text string) *agent.Turn {
	return &agent.Turn{
		Session: "web:42", TranscriptID: "4f1c", Messages: []session.Message{{Text: text}},
		Host: agent.Host{Emit: show},
	}
}

// New checks the configuration. It does not start the agent.
func ExampleNew() {
	_, err := acp.New(acp.Config{Command: []string{"opencode", "acp"}, Permissions: "perhaps"})
	fmt.Println(err)
	// Output: acp agent: unknown permissions "perhaps": use allow, deny or ask
}

// Run starts a process for one turn and ends it.
func ExampleAgent_Run() {
	a, err := acp.New(acp.Config{Command: echoAgent()})
	demo.Check(err)
	_, err = a.Run(context.Background(), say("hello"))
	fmt.Println(err)
	// Output:
	// hello
	// <nil>
}

// Warm starts a process and keeps it for the session's next turns.
func ExampleAgent_Warm() {
	a, err := acp.New(acp.Config{Command: echoAgent()})
	demo.Check(err)
	ctx, first := context.Background(), say("hello")
	warm, err := a.Warm(ctx, first)
	demo.Check(err)
	for _, turn := range []*agent.Turn{first, say("and again")} {
		_, err := warm.Run(ctx, turn)
		demo.Check(err)
	}
	fmt.Println(warm.Close())
	// Output:
	// hello
	// and again
	// <nil>
}

// A warm agent is used as long as its signature stays the same.
func ExampleAgent_Signature() {
	ask, err := acp.New(acp.Config{Command: []string{"opencode", "acp"}})
	demo.Check(err)
	deny, err := acp.New(acp.Config{Command: []string{"opencode", "acp"}, Permissions: acp.Deny})
	demo.Check(err)
	fmt.Println(ask.Signature() == deny.Signature())
	// Output: false
}

func ExampleAgent_Check() {
	a, err := acp.New(acp.Config{Command: []string{"no-such-agent"}})
	demo.Check(err)
	fmt.Println(a.Check())
	// Output: exec: "no-such-agent": executable file not found in $PATH
}
