package echo_test

import (
	"context"
	"fmt"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
)

func ExampleNew() {
	turn := &agent.Turn{Messages: []session.Message{{Text: "hello"}}}
	result, err := echo.New().Run(context.Background(), turn)
	fmt.Println(result.Text, err)
	// Output: echo: hello <nil>
}

// Directives at the beginning of a message make the agent use a tool and stream its reply.
func ExampleAgent_Run() {
	_, err := echo.New().Run(context.Background(), &agent.Turn{
		Messages: []session.Message{{Text: "tool=search stream=2 found it"}},
		Host:     agent.Host{Emit: func(e agent.Event) { fmt.Printf("%s %q\n", e.Type, e.Name+e.Text) }},
	})
	fmt.Println(err)
	// Output:
	// tool_start "search"
	// tool_end "search"
	// text "echo: f"
	// text "ound it"
	// <nil>
}

// A message that arrives while the agent works joins its turn.
func ExampleAgent_Traits() {
	steers := make(chan agent.Steer, 1)
	steers <- agent.NewSteer(session.Message{Text: "in French, please"}, func() { fmt.Println("accepted") })
	turn := &agent.Turn{Messages: []session.Message{{Text: "sleep=300ms hello"}}, Host: agent.Host{Steers: steers}}
	e := echo.New()
	result, err := e.Run(context.Background(), turn)
	fmt.Println(e.Traits().Steerable, err)
	fmt.Println(result.Text)
	// Output:
	// accepted
	// true <nil>
	// echo: hello
	//
	// steered: in French, please
}
