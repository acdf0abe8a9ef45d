package exec_test

import (
	"context"
	"errors"
	"fmt"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// A program calls Init before anything else, for it is also started as its agents' guardian.
func ExampleInit() {
	exec.Init()
	a, err := exec.New(exec.Config{Command: []string{"my-agent", "--quiet"}})
	fmt.Println(a != nil, err)
}

// New checks the configuration. It does not start the command.
func ExampleNew() {
	_, err := exec.New(exec.Config{Command: []string{"my-agent"}, Format: "xml"})
	fmt.Println(err)
	// Output: exec agent: unknown format "xml": use text or jsonl
}

// In the format Text the command reads the message from stdin and writes the reply to stdout.
func ExampleAgent_Run() {
	a, err := exec.New(exec.Config{Command: []string{"tr", "a-z", "A-Z"}})
	demo.Check(err)
	turn := &agent.Turn{Session: "web:42", Messages: []session.Message{{Text: "hello"}}}
	turn.Host.Emit = func(e agent.Event) { fmt.Println(e.Type, e.Text) }
	_, err = a.Run(context.Background(), turn)
	fmt.Println(err)
	// Output:
	// text HELLO
	// <nil>
}

// In the format JSONL the command reads the turn as JSON and writes an event a line.
func ExampleAgent_Run_jsonl() {
	a, err := exec.New(exec.Config{Format: exec.JSONL, Command: []string{"sh", "-c", `
		echo '{"type": "tool_start", "name": "search", "call_id": "1"}'
		echo '{"type": "tool_end", "call_id": "1", "output": {"hits": 3}}'
		echo '{"type": "result", "text": "I found 3 pages."}'`}})
	demo.Check(err)
	turn := &agent.Turn{Session: "web:42", Messages: []session.Message{{Text: "search"}}}
	turn.Host.Emit = func(e agent.Event) { fmt.Println(e.Type, e.Name+string(e.Output)) }
	result, err := a.Run(context.Background(), turn)
	fmt.Println(result.Text, err)
	// Output:
	// tool_start search
	// tool_end {"hits": 3}
	// I found 3 pages. <nil>
}

// Exit code 75 says that the turn may be tried again. Other failures are final.
func ExampleAgent_Run_failure() {
	for _, script := range []string{"echo overloaded >&2; exit 75", "echo no such model >&2; exit 1"} {
		a, err := exec.New(exec.Config{Command: []string{"sh", "-c", script}})
		demo.Check(err)
		_, err = a.Run(context.Background(), &agent.Turn{Session: "web:42"})
		fmt.Println(errors.Is(err, agent.ErrRetryable), err)
	}
	// Output:
	// true exit status 75: overloaded
	// false exit status 1: no such model
}

// Only commands of the format JSONL can receive messages while they run.
func ExampleAgent_Traits() {
	for _, format := range []exec.Format{exec.Text, exec.JSONL} {
		a, err := exec.New(exec.Config{Command: []string{"my-agent"}, Format: format})
		demo.Check(err)
		fmt.Println(format, a.Traits().Steerable)
	}
	// Output:
	// text false
	// jsonl true
}

func ExampleAgent_Check() {
	a, err := exec.New(exec.Config{Command: []string{"no-such-agent"}})
	demo.Check(err)
	fmt.Println(a.Check())
	// Output: exec: "no-such-agent": executable file not found in $PATH
}

func ExampleSplitCommand() {
	words, err := exec.SplitCommand(`my-agent --prompt 'be brief' "$HOME"`)
	fmt.Printf("%q %v\n", words, err)
	_, err = exec.SplitCommand("my-agent | tee log")
	fmt.Println(err)
	// Output:
	// ["my-agent" "--prompt" "be brief" "$HOME"] <nil>
	// command: no shell runs it, so '|' must be quoted; or use sh -c '...'
}
