package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// A gateway with few file descriptors keeps some for Redis: clients beyond the others learn that it is
// overloaded, never that Redis cannot be reached. The log says so once.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	const limit, streams = 96, 80
	line := fmt.Sprintf(`ulimit -n %d; exec "$0" --addr 127.0.0.1:0`, limit)
	p := program.Start(t, program.Command(t, "sh", []string{"REDIS_URL=" + redistest.URL(t)}, "-c", line, program.Build(t, "turnstile/cmd/gateway")))
	expect.Soon(t, "the address", func() bool { return listens.MatchString(p.Output.String()) })
	url := "http://" + listens.FindStringSubmatch(p.Output.String())[1]
	client := &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: expect.Patience}}
	call := func(method, path, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		expect.OK(t, err)
		r.Header.Set("Content-Type", "application/json")
		response, err := client.Do(r)
		expect.OK(t, err)
		return response
	}
	statuses := map[int]int{}
	var open []*http.Response
	for range streams {
		response := call(http.MethodGet, "/v1/sessions/s/events", "")
		if statuses[response.StatusCode]++; response.StatusCode == http.StatusOK {
			open = append(open, response)
			continue
		}
		expect.Equal(t, "Retry-After", response.Header.Get("Retry-After"), "1")
		expect.OK(t, response.Body.Close())
	}
	expect.Equal(t, "streams", statuses[http.StatusOK], limit/2)
	expect.Equal(t, "refused", statuses[http.StatusServiceUnavailable], streams-limit/2)
	send := func() int {
		t.Helper()
		response := call(http.MethodPost, "/v1/sessions/s/messages", `{"text": "hi"}`)
		defer response.Body.Close()
		return response.StatusCode
	}
	expect.Equal(t, "a message", send(), http.StatusServiceUnavailable)
	for _, path := range []string{"/healthz", "/readyz"} {
		response := call(http.MethodGet, path, "")
		expect.Equal(t, path, response.StatusCode, http.StatusOK)
		expect.OK(t, response.Body.Close())
	}
	for _, stream := range open {
		expect.OK(t, stream.Body.Close())
	}
	expect.Soon(t, "room for a message", func() bool { return send() == http.StatusAccepted })
	client.CloseIdleConnections()
	log := p.Output.String()
	if strings.Count(log, "too many HTTP connections") != 1 || strings.Contains(log, "request failed") {
		t.Errorf("the log is %s", log)
	}
}
