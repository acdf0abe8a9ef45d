package cli_test

import (
	"context"
	"fmt"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/cli"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// New checks the configuration. It does not start the program.
func ExampleNew() {
	_, err := cli.New("copilot", cli.Config{})
	fmt.Println(err)
	// Output: agent "copilot": there is no such preset: use claude, codex or gemini
}

// The reply is streamed. State has the ID of the program's own session, which the next turn
// resumes. A recorded run takes the place of the program here; leave Command out to run claude.
func ExampleAgent_Run() {
	a, err := cli.New(cli.Claude, cli.Config{
		Command: []string{"sh", "-c", "cat > /dev/null; cat testdata/claude/resume.jsonl", "claude"},
	})
	demo.Check(err)
	reply := ""
	_, err = a.Run(context.Background(), &agent.Turn{
		Session: "web:42", Messages: []session.Message{{Text: "and again"}},
		Host: agent.Host{Emit: func(e agent.Event) {
			switch e.Type {
			case session.EventState:
				fmt.Println(string(e.Data))
			case session.EventText:
				reply += e.Text
			}
		}},
	})
	fmt.Println(reply)
	fmt.Println(err)
	// Output:
	// {"agent":"claude","session":"3b8c581b-55ae-4775-a641-488d47bc1dcb"}
	// Heard 3: -think first | please use the tool | and now?
	// <nil>
}

func ExampleAgent_Check() {
	a, err := cli.New(cli.Gemini, cli.Config{Command: []string{"no-such-gemini"}})
	demo.Check(err)
	fmt.Println(a.Check())
	// Output: agent gemini: exec: "no-such-gemini": executable file not found in $PATH: install it, or name it in the agent's command
}

// A turn that has asked the user goes on where it was.
func ExampleAgent_Traits() {
	a, err := cli.New(cli.Claude, cli.Config{Ask: []string{"Bash", "mcp__*"}})
	demo.Check(err)
	fmt.Println(a.Traits().Continues)
	// Output: true
}
