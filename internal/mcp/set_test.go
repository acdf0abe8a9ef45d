package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/test/expect"
	"turnstile/test/mcpserver"
)

// write writes a file of servers.
func write(t testing.TB, servers map[string]any, more ...any) string {
	t.Helper()
	all := map[string]any{"mcpServers": servers}
	for i := 0; i < len(more); i += 2 {
		all[fmt.Sprint(more[i])] = more[i+1]
	}
	text, err := json.Marshal(all)
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), "mcp.json")
	expect.OK(t, os.WriteFile(path, text, 0o600))
	return path
}

// stdio is the test's server as a program.
func stdio(t testing.TB, options ...string) map[string]any {
	words := mcpserver.Words(t, options...)
	return map[string]any{"command": words[0], "args": words[1:]}
}

type object = map[string]any

// open opens the set of a session, which is closed with the test.
func open(t testing.TB, config Config, path string) *Set {
	t.Helper()
	expect.NotQuick(t)
	file, err := Load(path)
	expect.OK(t, err)
	config.Logger = slog.New(slog.DiscardHandler)
	if config.Start == 0 {
		config.Start = expect.Patience
	}
	all, err := New(file, config)
	expect.OK(t, err)
	set := all.Open(t.Name())
	t.Cleanup(func() { set.Close(false) })
	return set
}

// begin begins a turn, and returns the tools by name.
func begin(t testing.TB, set *Set) (map[string]Tool, map[string]error) {
	t.Helper()
	tools, missing := set.Begin(t.Context(), &agent.Turn{Session: t.Name()})
	byName := map[string]Tool{}
	for _, tool := range tools {
		byName[tool.Name] = tool
	}
	expect.Equal(t, "tools", len(byName), len(tools))
	return byName, missing
}

// call calls a tool with a text.
func (tool Tool) call(t testing.TB, text string) string {
	t.Helper()
	return tool.within(t, text, expect.Patience)
}

func (tool Tool) within(t testing.TB, text string, limit time.Duration) string {
	t.Helper()
	args, err := json.Marshal(mcpserver.Input{Text: text})
	expect.OK(t, err)
	if tool.Call == nil {
		return "there is no such tool"
	}
	got, err := tool.Call(t.Context(), Call{Arguments: args, Key: "key-1", Trace: "trace-1", Limit: limit})
	if err != nil {
		return "failed: " + err.Error()
	}
	return got
}

// What tools return, by both transports.
func TestTools(t *testing.T) {
	t.Parallel()
	http := mcpserver.NewHTTP(t)
	set := open(t, Config{}, write(t, object{
		"a": stdio(t, "greet"), "b": object{"type": "http", "url": http.URL, "headers": object{"X-Token": "Bearer ${MCP_TEST_TOKEN}"}},
	}))
	tools, missing := begin(t, set)
	expect.Equal(t, "missing", len(missing), 0)
	for _, s := range []string{"a", "b"} {
		for _, c := range [][3]string{
			{"echo", "ü\n2", "ü\n2"},
			{"fail", "not today", "failed: not today"},
			{"fail", "", "failed: the tool failed"},
			{"meta", "turnstile/stepKey", "key-1"},
			{"meta", "traceparent", "trace-1"},
			{"picture", "", "see\n[image image/png, 4 bytes]\n[resource file:///a]\n[resource file:///b]\ninside"},
			{"count", "", "1"},
			{"count", "", "2"},
		} {
			expect.Equal(t, s+" "+c[0], tools["mcp__"+s+"__"+c[0]].call(t, c[1]), c[2])
		}
	}
	echo, count, plain := tools["mcp__a__echo"], tools["mcp__a__count"], tools["mcp__a__append_to"]
	expect.Equal(t, "echo", fmt.Sprint(echo.Safe, echo.Again)+" "+echo.Description, "true true It does echo.")
	expect.Equal(t, "count", fmt.Sprint(count.Safe, count.Again), "false true")
	expect.Equal(t, "another", fmt.Sprint(plain.Safe, plain.Again), "false false")
	for _, h := range http.Headers() {
		expect.Equal(t, "the header", h.Get("X-Token"), "Bearer token-of-the-test")
	}
	set.Rest()
	again, _ := begin(t, set)
	expect.Equal(t, "the same names", fmt.Sprint(slices.Sorted(maps.Keys(again))), fmt.Sprint(slices.Sorted(maps.Keys(tools))))
	expect.Equal(t, "the same program", again["mcp__a__count"].call(t, ""), "3")
}

func TestOlderTransport(t *testing.T) {
	t.Parallel()
	file, err := Load(write(t, object{"a": object{"type": "sse", "url": "https://h/sse"}}))
	expect.OK(t, err)
	if _, err := New(file, Config{}); err == nil || !strings.Contains(err.Error(), "server a: the agent model does not know the type sse") {
		t.Error(err)
	}
}

// A server that fails at its start costs only its own tools.
func TestServersThatDoNotStart(t *testing.T) {
	t.Parallel()
	closed := mcpserver.NewHTTP(t)
	closed.Close()
	bad := object{
		"dies": stdio(t, "die"), "old": stdio(t, "old"), "none": object{"command": "no-such-program-anywhere"},
		"gone": object{"url": closed.URL + "/?key=${MCP_TEST_TOKEN}"}, "pages": stdio(t, "pages"),
	}
	bad["dies"].(object)["env"] = object{"SECRET": "${MCP_TEST_TOKEN}"}
	bad["fine"], bad["bare"] = stdio(t), stdio(t, "bare")
	tools, missing := begin(t, open(t, Config{}, write(t, bad)))
	expect.Equal(t, "fine", tools["mcp__fine__echo"].call(t, "x"), "x")
	expect.Equal(t, "missing", len(missing), 5)
	for name, want := range map[string]string{
		"dies": "exit status 3: no licence for ***", "old": `unsupported protocol version: "1999-01-01"`, "none": "could not start", "gone": "connection refused", "pages": "more than 1000 tools, or pages of them",
	} {
		if got := fmt.Sprint(missing[name]); !strings.Contains(got, want) || strings.Contains(got, "token-of") {
			t.Errorf("%s: %s", name, got)
		}
	}
	_, missing = begin(t, open(t, Config{Start: 10 * time.Millisecond}, write(t, object{"mute": stdio(t, "mute", "deaf")})))
	expect.Equal(t, "mute", fmt.Sprint(missing), "map[mute:it did not start in time]")
}

// A call that fails costs nothing but itself: the next one reaches the server, or starts it again.
func TestCallsThatFail(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{
		"die":     "failed: the server failed: exit status 3: last words ***",
		"flood":   "failed: the server failed: " + errFlood.Error(),
		"freeze":  "failed: given up, for it took longer than 200ms",
		"hang":    "failed: given up, for it took longer than 200ms",
		"garbage": "failed: the server failed: ",
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			server := stdio(t)
			server["env"] = object{"SECRET": "${MCP_TEST_TOKEN}"}
			tools, _ := begin(t, open(t, Config{}, write(t, object{"a": server})))
			expect.Equal(t, "before", tools["mcp__a__count"].call(t, ""), "1")
			limit := expect.Patience
			if strings.Contains(want, "200ms") {
				limit = 200 * time.Millisecond
			}
			text := "token-of-the-test"
			if tool == "hang" {
				text = filepath.Join(t.TempDir(), "called")
			}
			if got := tools["mcp__a__"+tool].within(t, text, limit); !strings.HasPrefix(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
			after := "1" // another process
			if tool == "hang" {
				after = "2"
			}
			expect.Equal(t, "after", tools["mcp__a__count"].call(t, ""), after)
		})
	}
}

// A server that is gone costs its call, and is asked again at the next one. A new one knows no session of the old.
func TestServerOfHTTPStartsAgain(t *testing.T) {
	t.Parallel()
	one, two := mcpserver.NewHTTP(t), mcpserver.NewHTTP(t)
	var target atomic.Pointer[mcpserver.HTTP]
	target.Store(one)
	rewrite := func(r *httputil.ProxyRequest) {
		to, _ := url.Parse(target.Load().URL)
		r.SetURL(to)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: rewrite, ModifyResponse: func(r *http.Response) error {
		if r.StatusCode == http.StatusNotFound { // as some servers say that they do not know the session
			r.Header = http.Header{"Content-Type": {"application/json"}}
			r.ContentLength, r.Body = -1, io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":"server-error","error":{"code":-32001,"message":"Session not found"}}`))
		}
		return nil
	}})
	t.Cleanup(proxy.Close)
	set := open(t, Config{}, write(t, object{"a": object{"url": proxy.URL}}))
	tools, _ := begin(t, set)
	expect.Equal(t, "before", tools["mcp__a__count"].call(t, ""), "1")
	target.Store(two)
	if got := tools["mcp__a__count"].call(t, ""); !strings.HasPrefix(got, "failed: the server failed: ") {
		t.Error(got)
	}
	expect.Equal(t, "in the same turn", tools["mcp__a__count"].call(t, ""), "1")
	target.Store(one)
	tools, missing := begin(t, set)
	expect.Equal(t, "missing", len(missing), 0)
	expect.Equal(t, "in the next turn", tools["mcp__a__count"].call(t, ""), "2")
}

// Nothing of a set is left once it is closed, and its turn ends with its context.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, options := range [][]string{nil, {"deaf"}} {
		set := open(t, Config{}, write(t, object{"a": stdio(t, options...)}))
		tools, _ := begin(t, set)
		pids := strings.Fields(tools["mcp__a__child"].call(t, ""))
		expect.Equal(t, "processes", len(pids), 2)
		ctx, cancel := context.WithCancel(t.Context())
		file := filepath.Join(t.TempDir(), "called")
		go func() {
			defer cancel()
			for {
				if _, err := os.Stat(file); err == nil || t.Context().Err() != nil {
					return
				}
				time.Sleep(time.Millisecond) // the file is the event, and files have none
			}
		}()
		args, _ := json.Marshal(mcpserver.Input{Text: file})
		if _, err := tools["mcp__a__hang"].Call(ctx, Call{Arguments: args, Limit: expect.Patience}); err == nil || ctx.Err() == nil {
			t.Errorf("%v", err)
		}
		set.Close(false)
		for _, pid := range pids {
			n, err := strconv.Atoi(pid)
			expect.OK(t, err)
			if err := syscall.Kill(n, 0); err != syscall.ESRCH {
				t.Errorf("process %d is left: %v", n, err)
			}
		}
	}
}

// A server's program is isolated as the agent's tools are.
func TestServersAreIsolated(t *testing.T) {
	t.Parallel()
	work := filepath.Join(t.TempDir(), "work")
	set := open(t, Config{Isolation: agent.Isolation{Level: agent.IsolationWrapper, Workspace: work, Wrapper: []string{"env", "WRAPPED={workspace}"}}}, write(t, object{"a": stdio(t)}))
	tools, _ := begin(t, set)
	expect.Equal(t, "wrapped in", filepath.Dir(tools["mcp__a__env"].call(t, "WRAPPED")), work)
}
