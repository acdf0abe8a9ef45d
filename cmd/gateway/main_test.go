package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"turnstile/internal/program/config"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	expect.AtOnce(4)
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// call runs the program in this process.
func call(t *testing.T, environ []string, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, environ, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestUsage(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	expect.OK(t, os.WriteFile(tokens, []byte(`[{"name": "a", "sha256": "x", "sessions": ["*"], "may": ["read"]}]`), 0o600))
	lacking := redistest.StartServer(t)
	acl.Set(t, lacking.Client(), acl.Gateway, slices.DeleteFunc(acl.Rules(t)[acl.Gateway], func(word string) bool { return word == "+lpos" })...)
	for name, c := range map[string]struct {
		environ, args []string
		code          int
		want          string
	}{
		"word":      {nil, []string{"serve"}, exitUsage, `unknown command "serve"`},
		"flag":      {nil, []string{"--nothing"}, exitUsage, "unknown flag: --nothing; see gateway --help"},
		"no tokens": {nil, []string{"--addr", "0.0.0.0:8081"}, exitUsage, `TURNSTILE_GATEWAY_ADDR="0.0.0.0:8081" can be reached from other machines: set TURNSTILE_GATEWAY_TOKENS_FILE`},
		"address":   {[]string{"TURNSTILE_GATEWAY_ADDR=8081"}, nil, exitUsage, "it is not HOST:PORT"},
		"tokens":    {nil, []string{"--tokens-file", tokens}, exitUsage, "token 1 (a): sha256 is not 64 hex digits"},
		"misspelt":  {[]string{"TURNSTILE_GATEWAY_ADR=x"}, nil, exitUsage, "did you mean TURNSTILE_GATEWAY_ADDR?"},
		"origin":    {[]string{"TURNSTILE_GATEWAY_ORIGINS=chat.example/"}, nil, exitUsage, "is not a list of origins"},
		"host":      {[]string{"TURNSTILE_GATEWAY_HOSTS=a:80"}, nil, exitUsage, "is not a list of host names"},
		"rule":      {[]string{"TURNSTILE_GATEWAY_APPROVE=all"}, nil, exitUsage, "use sender or anyone"},
		"no Redis":  {[]string{"REDIS_URL=redis://127.0.0.1:1/0"}, []string{"--addr", "127.0.0.1:0"}, exitOther, "refuses the connection"},
		"a right":   {[]string{"REDIS_URL=" + acl.URL(t, lacking.URL(), acl.Gateway)}, []string{"--addr", "127.0.0.1:0"}, exitOther, "it lacks LPOS;"},
		"health":    {[]string{"TURNSTILE_GATEWAY_ADDR=127.0.0.1:1"}, []string{"health"}, exitOther, "health check"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, said := call(t, c.environ, c.args...)
			if code != c.code || out != "" || !strings.HasPrefix(said[strings.LastIndex(strings.TrimSpace(said), "\n")+1:], "gateway: ") || !strings.Contains(said, c.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, out, said)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	code, out, _ := call(t, nil, "--help")
	expect.Equal(t, "exit code", code, exitOK)
	for _, s := range config.GatewaySettings() {
		if !strings.Contains(out, "  "+s.Name+" ("+s.Unit+"; default ") {
			t.Errorf("--help lacks %s", s.Name)
		}
	}
}

var listens = regexp.MustCompile(`addr=(\S+)`)

// The built program serves, reloads its tokens at SIGHUP, and drains at SIGTERM. The drain breaks off
// the streams of sessions, so that their readers reopen them elsewhere.
func TestSignals(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	write := func(secret string) {
		t.Helper()
		text := fmt.Sprintf(`[{"name": "a", "sha256": "%x", "sessions": ["*"], "may": ["read", "send"]}]`, sha256.Sum256([]byte(secret)))
		expect.OK(t, os.WriteFile(tokens, []byte(text), 0o600))
	}
	write("one")
	path := program.Build(t, "turnstile/cmd/gateway")
	p := program.Start(t, program.Command(t, "/bin/sh", []string{"REDIS_URL=" + redistest.URL(t), "TURNSTILE_GATEWAY_TOKENS_FILE=" + tokens},
		"-c", `trap "" INT; exec "$0" "$@"`, path, "--addr", "127.0.0.1:0"))
	p.Output.Await(t, "serving HTTP")
	p.Signal(syscall.SIGINT) // which stays ignored
	expect.Soon(t, "the address", func() bool { return listens.MatchString(p.Output.String()) })
	addr := listens.FindStringSubmatch(p.Output.String())[1]
	get := func(path, secret string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, http.NoBody)
		expect.OK(t, err)
		r.Header.Set("Authorization", "Bearer "+secret)
		response, err := http.DefaultClient.Do(r)
		expect.OK(t, err)
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	expect.Equal(t, "ready", get("/readyz", "").StatusCode, 200)
	expect.Equal(t, "known", get("/v1/sessions/s/messages/m", "one").StatusCode, 404)
	expect.Equal(t, "unknown", get("/v1/sessions/s/messages/m", "two").StatusCode, 401)
	write("two")
	p.Signal(syscall.SIGHUP)
	p.Output.Await(t, `"the file was reloaded" file=tokens`)
	expect.Equal(t, "unknown now", get("/v1/sessions/s/messages/m", "one").StatusCode, 401)
	expect.OK(t, os.WriteFile(tokens, []byte("["), 0o600))
	p.Signal(syscall.SIGHUP)
	p.Output.Await(t, "the file cannot be used; its earlier contents stay in force")
	code, _, said := call(t, []string{"TURNSTILE_GATEWAY_ADDR=" + addr}, "health")
	expect.Equal(t, "health "+said, code, exitOK)

	stream := get("/v1/sessions/s/events", "two")
	expect.Equal(t, "stream", stream.StatusCode, 200)
	p.Signal(syscall.SIGTERM)
	rest, err := io.ReadAll(stream.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ended with the error %v, not broken off, which lets its reader connect again", err)
	}
	if !strings.Contains(string(rest), "retry: ") {
		t.Errorf("the stream ended with %q", rest)
	}
	expect.Equal(t, "exit code", p.ExitCode(), exitOK)
}
