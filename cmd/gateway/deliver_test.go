package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/program"
)

// The built program delivers to the destinations of its file, under its own Redis user, and reloads
// the file at SIGHUP.
func TestDelivers(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	t.Cleanup(receiver.Close)
	path := filepath.Join(t.TempDir(), "destinations.json")
	write := func(names ...string) {
		t.Helper()
		var entries []string
		for _, name := range names {
			entries = append(entries, fmt.Sprintf(`{"name": %q, "url": "%s/%s", "private": true, "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}`, name, receiver.URL, name))
		}
		expect.OK(t, os.WriteFile(path, []byte("["+strings.Join(entries, ",")+"]"), 0o600))
	}
	write("one")
	server := acl.Server(t)
	p := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/gateway"), []string{
		"REDIS_URL=" + acl.URL(t, server.URL(), acl.Gateway), "TURNSTILE_DELIVER=true", "TURNSTILE_GATEWAY_DESTINATIONS_FILE=" + path,
	}, "--addr", "127.0.0.1:0"))
	p.Output.Await(t, "delivering")
	expect.Soon(t, "the address", func() bool { return listens.MatchString(p.Output.String()) })
	base := "http://" + listens.FindStringSubmatch(p.Output.String())[1] + "/v1/sessions/s/messages"
	do := func(method, url, id, body string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		expect.OK(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", id)
		response, err := http.DefaultClient.Do(r)
		expect.OK(t, err)
		expect.OK(t, response.Body.Close())
		return response.StatusCode
	}
	send := func(name string) int {
		t.Helper()
		return do(http.MethodPost, base, name, `{"text": "hi", "reply_to": "`+name+`"}`)
	}
	cancelled := func(name string) {
		t.Helper()
		expect.Equal(t, "sent", send(name), 202)
		expect.Equal(t, "cancelled", do(http.MethodDelete, base+"/"+name, "", ""), 200)
		expect.Equal(t, "delivered", <-got, "/"+name)
	}
	cancelled("one")
	expect.Equal(t, "unknown", send("two"), 400)
	write("one", "two")
	p.Signal(syscall.SIGHUP)
	p.Output.Await(t, `"the file was reloaded" file=destinations`)
	cancelled("two")
	write("")
	p.Signal(syscall.SIGHUP)
	p.Output.Await(t, "earlier contents stay in force")
	p.Signal(syscall.SIGTERM)
	expect.Equal(t, "exit code", p.ExitCode(), exitOK)
}

func TestDestinationsFileIsChecked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "destinations.json")
	expect.OK(t, os.WriteFile(path, []byte(`[{"name": "A b", "url": "x"}]`), 0o600))
	code, _, said := call(t, nil, "--destinations-file", path)
	if code != exitUsage || strings.Count(said, "\n") != 3 || !strings.Contains(said, "has no usable name") {
		t.Errorf("exit code %d, stderr %q", code, said)
	}
	code, _, said = call(t, []string{"TURNSTILE_DELIVER=true"})
	if code != exitUsage || !strings.Contains(said, "needs TURNSTILE_GATEWAY_DESTINATIONS_FILE") {
		t.Errorf("exit code %d, stderr %q", code, said)
	}
}
