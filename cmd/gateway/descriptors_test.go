package main

import (
	"fmt"
	"io"
	"net"
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
	const limit, streams, silent = 96, 80, 60
	server := redistest.StartServer(t)
	line := fmt.Sprintf(`ulimit -n %d; exec "$0" --addr 127.0.0.1:0`, limit)
	p := program.Start(t, program.Command(t, "sh", []string{"REDIS_URL=" + server.URL()}, "-c", line, program.Build(t, "turnstile/cmd/gateway")))
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
	ready := func() {
		t.Helper()
		response, err := http.Get(url + "/readyz") // over one connection, which it opens now
		expect.OK(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		expect.OK(t, err)
		expect.OK(t, response.Body.Close())
		expect.Equal(t, "readiness", response.StatusCode, http.StatusOK)
	}
	ready()
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
	if served, refused := statuses[http.StatusOK], statuses[http.StatusServiceUnavailable]; served < limit/4 || served > limit/2 || served+refused != streams {
		t.Errorf("of %d streams %d were served and %d refused", streams, served, refused)
	}
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
	var quiet []net.Conn
	for range silent {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		expect.OK(t, err)
		quiet = append(quiet, conn)
	}
	expect.OK(t, server.Client().ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
	ready() // it connects to Redis
	for _, conn := range quiet {
		expect.OK(t, conn.Close())
	}
	for _, stream := range open {
		expect.OK(t, stream.Body.Close())
	}
	expect.Soon(t, "room for a message", func() bool { return send() == http.StatusAccepted })
	client.CloseIdleConnections()
	log := p.Output.String()
	if strings.Count(log, "too many connections") != 1 || strings.Contains(log, "request failed") {
		t.Errorf("the log is %s", log)
	}
}
