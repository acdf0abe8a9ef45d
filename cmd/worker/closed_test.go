package main

import (
	"strings"
	"testing"
)

// reading is an agent that reads a page of its worker.
func reading(t *testing.T, addr, path string) []string {
	t.Helper()
	return []string{"TURNSTILE_AGENT=exec", playing(t, "read-a-page", "http://"+addr+path), "TURNSTILE_HTTP_ADDR=" + addr}
}

// An agent's program reaches the worker's loopback. Without a token asynqmon refuses it, but the
// worker starts.
func TestAsynqmonIsClosedToPrograms(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"/asynqmon": "403 false", "/asynqmon/api/queues": "403 false", "/metrics": "200 false"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			url, c := newRedis(t)
			addr := freeAddr(t)
			w := start(t, append(reading(t, addr, path), "REDIS_URL="+url))
			w.err.Await(t, "worker started")
			if got := strings.TrimSpace(reply(t, c, "a", "what do others say?")); got != want {
				t.Errorf("the agent read: %s, want %s", got, want)
			}
			if code, body := page(t, addr, "/asynqmon"); code != 403 || !strings.Contains(body, "TURNSTILE_HTTP_TOKEN") {
				t.Errorf("it says %d %s", code, body)
			}
			w.stop(t)
			if n := strings.Count(w.err.String(), "asynqmon is closed"); n != 1 || !strings.Contains(w.err.String(), "level=WARN msg=\"asynqmon is closed") {
				t.Errorf("the log tells of it %d times:\n%s", n, w.err)
			}
		})
	}
}

// With --dev the printed address logs in, and an agent's program does not know it.
func TestDevMakesAToken(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	addr := freeAddr(t)
	w := start(t, append(reading(t, addr, "/asynqmon"), "REDIS_URL="+url), "--dev")
	w.out.Await(t, "a worker")
	if got := strings.TrimSpace(reply(t, c, "a", "what do others say?")); got != "401 false" {
		t.Errorf("the agent read: %s", got)
	}
	token := shownToken(t, w.out.String(), addr)
	for path, want := range map[string]int{"/asynqmon": 200, "/asynqmon/api/queues": 200, "/metrics": 200} {
		if got := status(t, "turnstile:"+token+"@"+addr, path); got != want {
			t.Errorf("%s with the token: %d", path, got)
		}
	}
	w.stop(t)
	if strings.Contains(w.err.String(), token) {
		t.Errorf("the token is in the log: %s", w.err)
	}

	// A token of the user's own is not printed.
	w = start(t, append(reading(t, addr, "/asynqmon"), "REDIS_URL="+url, "TURNSTILE_HTTP_TOKEN=mine"), "--dev")
	w.out.Await(t, "http://"+addr+"/asynqmon\n")
	w.stop(t)
	if strings.Contains(w.out.String(), "mine") {
		t.Errorf("it shows the user's own token:\n%s", w.out)
	}
}

func shownToken(t *testing.T, said, addr string) string {
	t.Helper()
	_, rest, _ := strings.Cut(said, "http://turnstile:")
	token, _, ok := strings.Cut(rest, "@"+addr+"/asynqmon\n")
	if !ok || len(token) < 26 {
		t.Fatalf("it shows no address to log in with:\n%s", said)
	}
	return token
}

// The dashboard runs no agent, but the agents of a worker on the same machine reach it.
func TestDashboardMakesAToken(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	for _, c := range []struct {
		environ []string
		open    bool
	}{
		{nil, false},
		{[]string{"TURNSTILE_AGENT=claude"}, false},
		{[]string{"TURNSTILE_AGENT=model", "TURNSTILE_TOOLS_FILE=/tools"}, false},
		{[]string{"TURNSTILE_AGENT=model"}, true},
		{[]string{"TURNSTILE_AGENT=echo"}, true},
	} {
		addr := freeAddr(t)
		d := start(t, append(c.environ, "REDIS_URL="+url), "dashboard", "--http-addr", addr)
		if c.open {
			d.err.Await(t, "serving HTTP")
			if got := status(t, addr, "/asynqmon"); got != 200 {
				t.Errorf("%v: %d", c.environ, got)
			}
			d.stop(t)
			continue
		}
		d.out.Await(t, "a password for this run")
		token := shownToken(t, d.out.String(), addr)
		if got := status(t, addr, "/asynqmon"); got != 401 {
			t.Errorf("%v: without the token %d", c.environ, got)
		}
		if got := status(t, "turnstile:"+token+"@"+addr, "/asynqmon"); got != 200 {
			t.Errorf("%v: with the token %d", c.environ, got)
		}
		d.stop(t)
	}
	const own = "a-token-of-the-users-own"
	addr := freeAddr(t)
	d := start(t, []string{"REDIS_URL=" + url, "TURNSTILE_HTTP_TOKEN=" + own}, "dashboard", "--http-addr", addr)
	d.err.Await(t, "serving HTTP")
	if got := status(t, "turnstile:"+own+"@"+addr, "/asynqmon"); got != 200 {
		t.Errorf("with a token of the user's own: %d", got)
	}
	d.stop(t)
	if d.out.String() != "" {
		t.Errorf("it prints %q", d.out)
	}
}
