// Package mcpserver is an MCP server for tests, written with the official SDK: a program, which is the test's own
// binary, or a server of streamable HTTP.
package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// argument is the first of the program.
const argument = "test-mcp-server"

// Init is the server if the process is one. Call it first in TestMain.
func Init() {
	if len(os.Args) > 1 && os.Args[1] == argument {
		os.Exit(program(os.Args[2:]))
	}
}

// Words are the program and its arguments. Its options, besides the names of tools that it leaves out, are
//
//	greet  it writes lines that are no messages first
//	deaf   it ends neither with its stdin nor by SIGINT
//	mute   it responds to nothing
//	die    it ends at once
//	old    it speaks only a version that nobody knows
func Words(t testing.TB, options ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{self, argument}, options...)
}

func program(options []string) int {
	is := func(option string) bool { return slices.Contains(options, option) }
	if is("greet") {
		fmt.Print("Welcome!\n\n{no json}\n42\n")
	}
	if is("deaf") {
		signal.Ignore(syscall.SIGINT)
		defer func() { select {} }()
	}
	switch {
	case is("mute"):
		for {
			time.Sleep(time.Hour)
		}
	case is("die"):
		fmt.Fprintln(os.Stderr, "no licence for", os.Getenv("SECRET"))
		return 3
	case is("old"):
		lines := bufio.NewScanner(os.Stdin)
		lines.Scan()
		fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"old","version":"1"}}}`)
		lines.Scan()
		return 0
	case is("bare"), is("pages"): // without capabilities; with empty pages of tools without an end
		can := map[bool]string{true: "", false: `"capabilities":{"tools":{}},`}[is("bare")]
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			var q struct {
				ID     json.RawMessage
				Method string
			}
			switch _ = json.Unmarshal(lines.Bytes(), &q); q.Method {
			case "initialize":
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25",%s"serverInfo":{"name":"x","version":"1"}}}`+"\n", q.ID, can)
			case "tools/list":
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[],"nextCursor":"more"}}`+"\n", q.ID)
			}
		}
		return 0
	}
	err := server(options).Run(context.Background(), &mcp.StdioTransport{})
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
	}
	return 0
}

// HTTP is a running server of streamable HTTP.
type HTTP struct {
	*httptest.Server

	mu      sync.Mutex
	headers []http.Header
}

// NewHTTP starts a server, which ends with the test.
func NewHTTP(t testing.TB, options ...string) *HTTP {
	t.Helper()
	own := server(options)
	h := &HTTP{}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return own }, nil)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.headers = append(h.headers, r.Header.Clone())
		h.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		h.Close()
		for s := range own.Sessions() { // of clients that did not say that they end
			_ = s.Close()
		}
	})
	return h
}

// Headers are the headers of the requests until now.
func (h *HTTP) Headers() []http.Header {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.headers)
}

// Input are the arguments of all tools.
type Input struct {
	Text string `json:"text,omitempty"`
}

// server has tools that are named after what they do.
func server(without []string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "for tests", Version: "1"}, nil)
	add := func(name string, hints *mcp.ToolAnnotations, f func(ctx context.Context, req *mcp.CallToolRequest, text string) *mcp.CallToolResult) {
		if slices.Contains(without, name) {
			return
		}
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "It does " + name + ".", Annotations: hints}, func(ctx context.Context, req *mcp.CallToolRequest, in Input) (*mcp.CallToolResult, any, error) {
			return f(ctx, req, in.Text), nil, nil
		})
	}
	reply := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	var count atomic.Int64
	add("echo", &mcp.ToolAnnotations{ReadOnlyHint: true}, func(_ context.Context, _ *mcp.CallToolRequest, text string) *mcp.CallToolResult {
		return reply(text)
	})
	add("count", &mcp.ToolAnnotations{IdempotentHint: true}, func(context.Context, *mcp.CallToolRequest, string) *mcp.CallToolResult {
		return reply(fmt.Sprint(count.Add(1)))
	})
	add("append.to", nil, func(_ context.Context, _ *mcp.CallToolRequest, file string) *mcp.CallToolResult {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString("x")
		}
		return reply(fmt.Sprint(err))
	})
	add("fail", nil, func(_ context.Context, _ *mcp.CallToolRequest, text string) *mcp.CallToolResult {
		r := reply(text)
		r.IsError = true
		return r
	})
	add("env", nil, func(_ context.Context, _ *mcp.CallToolRequest, name string) *mcp.CallToolResult {
		return reply(os.Getenv(name))
	})
	add("meta", nil, func(_ context.Context, req *mcp.CallToolRequest, key string) *mcp.CallToolResult {
		return reply(fmt.Sprint(req.Params.Meta[key]))
	})
	add("picture", nil, func(context.Context, *mcp.CallToolRequest, string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "see"}, &mcp.ImageContent{MIMEType: "image/png", Data: []byte("1234")},
			&mcp.ResourceLink{URI: "file:///a"}, &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///b", Text: "inside"}},
		}}
	})
	// child starts a process that would outlive the server, and returns its number and the server's.
	add("child", nil, func(context.Context, *mcp.CallToolRequest, string) *mcp.CallToolResult {
		c := exec.CommandContext(context.Background(), "sleep", "1000")
		if err := c.Start(); err != nil {
			return reply(err.Error())
		}
		return reply(fmt.Sprint(c.Process.Pid, os.Getpid()))
	})
	// hang writes the server's number into the file when it was called, and returns when the client cancels.
	add("hang", nil, func(ctx context.Context, _ *mcp.CallToolRequest, file string) *mcp.CallToolResult {
		_ = os.WriteFile(file, fmt.Append(nil, os.Getpid(), "\n"), 0o600)
		<-ctx.Done()
		return reply("")
	})
	add("freeze", nil, func(context.Context, *mcp.CallToolRequest, string) *mcp.CallToolResult {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {}
	})
	add("die", nil, func(_ context.Context, _ *mcp.CallToolRequest, text string) *mcp.CallToolResult {
		fmt.Fprintln(os.Stderr, "last words", text)
		os.Exit(3)
		return nil
	})
	add("flood", nil, func(context.Context, *mcp.CallToolRequest, string) *mcp.CallToolResult {
		line := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 1<<16) + "\"}}\n"
		for {
			if _, err := os.Stdout.WriteString(line); err != nil {
				os.Exit(4)
			}
		}
	})
	add("garbage", nil, func(context.Context, *mcp.CallToolRequest, string) *mcp.CallToolResult {
		fmt.Println(`{"jsonrpc":"1.0","neither":"this"}`)
		return reply("nor that")
	})
	return s
}
