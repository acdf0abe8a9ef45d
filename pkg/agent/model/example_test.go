package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/model"
	"turnstile/pkg/session"
	"turnstile/test/demo"
	"turnstile/test/modelserver"
)

// New checks the configuration. It does not ask the server.
func ExampleNew() {
	_, err := model.New(model.Config{URL: "localhost:11434", Model: "qwen3"})
	fmt.Println(err)
	// Output: model agent: the base URL is not an address: write it as https://HOST/v1
}

// The reply is streamed: the agent emits each piece as the model sends it.
func ExampleAgent_Run() {
	server := modelserver.Start(modelserver.Reply("Good morning!"))
	defer server.Close()
	a, err := model.New(model.Config{URL: server.URL(), Model: "test-model", SystemPrompt: "Be polite."})
	demo.Check(err)
	turn := &agent.Turn{Session: "web:42", Messages: []session.Message{{Text: "Hello!"}}}
	turn.Host.Emit = func(e agent.Event) { fmt.Print(e.Text) }
	_, err = a.Run(context.Background(), turn)
	fmt.Println()
	fmt.Println(err)
	// Output:
	// Good morning!
	// <nil>
}

// The model calls a tool, which is a command. Then it is asked again with the tool's output.
func ExampleTool() {
	server := modelserver.Start(
		modelserver.Stream(modelserver.Call("call-1", "shout", `{"word": "hello"}`)),
		modelserver.Reply("Done."),
	)
	defer server.Close()
	a, err := model.New(model.Config{URL: server.URL(), Model: "test-model", Tools: []model.Tool{{
		Name:        "shout",
		Description: "Writes a word in capitals.",
		Parameters:  json.RawMessage(`{"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}`),
		Argv:        []string{"tr", "a-z", "A-Z"},
	}}})
	demo.Check(err)
	turn := &agent.Turn{Session: "web:42", Messages: []session.Message{{Text: "Shout hello."}}}
	turn.Host.Emit = func(e agent.Event) { fmt.Println(e.Type, e.Name+e.Text+string(e.Output)) }
	_, err = a.Run(context.Background(), turn)
	fmt.Println(err)
	// Output:
	// tool_start shout
	// tool_end {"WORD":"HELLO"}
	// text Done.
	// <nil>
}

// A message that arrives while the model is busy is sent with the next request of the turn.
func ExampleAgent_Traits() {
	server := modelserver.Start(modelserver.Reply("Hello!"), modelserver.Reply("Bonjour!"))
	defer server.Close()
	a, err := model.New(model.Config{URL: server.URL(), Model: "test-model"})
	demo.Check(err)
	steers := make(chan agent.Steer, 1)
	steers <- agent.NewSteer(session.Message{ID: "two", Text: "In French, please."}, nil)
	turn := &agent.Turn{Session: "web:42", Messages: []session.Message{{Text: "Greet me."}}, Host: agent.Host{Steers: steers}}
	turn.Host.Emit = func(e agent.Event) { fmt.Println(e.Text) }
	_, err = a.Run(context.Background(), turn)
	fmt.Println(a.Traits().Steerable, err)
	// Output:
	// Hello!
	// Bonjour!
	// true <nil>
}

func ExampleLoadTools() {
	dir, err := os.MkdirTemp("", "tools")
	demo.Check(err)
	defer func() { demo.Check(os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "tools.json")
	demo.Check(os.WriteFile(path, []byte(`[{"name": "now", "description": "The time.", "argv": ["date", "-u"], "timeout": "5s"}]`), 0o600))
	tools, err := model.LoadTools(path)
	demo.Check(err)
	for _, tool := range tools {
		fmt.Println(tool.Name, tool.Argv, tool.Timeout)
	}
	// Output: now [date -u] 5s
}

// The servers' tools are offered to the model, as mcp__files__read and the like. A worker that is given KeepServers
// starts them once for each session.
func ExampleAgent_KeepServers() {
	dir, err := os.MkdirTemp("", "example")
	demo.Check(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "mcp.json")
	demo.Check(os.WriteFile(path, []byte(`{"mcpServers": {"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]}}}`), 0o600))
	a, err := model.New(model.Config{URL: "http://127.0.0.1:11434/v1", Model: "qwen3", MCPFile: path})
	demo.Check(err)
	_, keeps := a.KeepServers().(agent.Warmer)
	fmt.Println("keeps its servers:", keeps)
	// Output: keeps its servers: true
}
