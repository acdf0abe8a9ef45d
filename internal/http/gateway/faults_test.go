package gateway_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/http/gateway"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A client that goes away cancels nothing: its message runs, and so does its turn.
func TestKilledClientCancelsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/sessions/s/messages", strings.NewReader(`{"text": "tool=look:1s done"}`))
	expect.OK(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Prefer", "wait=60")
	request.Header.Set("Idempotency-Key", "m")
	gone := make(chan error, 1)
	go func() {
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
		}
		gone <- err
	}()
	s := r.stream("s", "")
	s.until("tool_start")
	cancel()
	if expect.Received(t, "the client's end", gone) == nil {
		t.Error("the client was answered")
	}
	expect.Equal(t, "reply", s.until(session.EventTurnEnded).Reply, "echo: done")
	s.close()
	<-s.done
	r.call("GET", "/v1/sessions/s/messages/m", nil).want(200)
}

// While Redis is away nothing is accepted. An open stream continues afterwards, and shows each event
// once.
func TestRedisRestartsUnderAStream(t *testing.T) {
	t.Parallel()
	server := acl.Server(t)
	r := rigOn(t, acl.Open(t, server, acl.Gateway))
	r.redis = acl.Open(t, server, acl.Worker)
	r.worker()
	s := r.stream("s", "")
	expect.Equal(t, "before", r.say("s", "one"), "echo: one")
	server.Kill()
	a := r.call("POST", "/v1/sessions/s/messages", object{"text": "lost"})
	a.problem(503, gateway.RedisUnavailable)
	expect.Equal(t, "Retry-After", a.Header.Get("Retry-After"), "2")
	r.call("GET", "/v1/sessions/s/events", nil).problem(503, gateway.RedisUnavailable)
	r.call("GET", "/v1/sessions/s", nil).problem(503, gateway.RedisUnavailable)
	server.Start()
	expect.Soon(t, "Redis", func() bool { return r.call("GET", "/v1/sessions/s", nil).StatusCode == http.StatusOK })
	expect.Equal(t, "after", r.say("s", "two"), "echo: two")
	seen := map[string]int{}
	var replies []string
	for len(replies) < 2 {
		e := s.next()
		if seen[e.id]++; seen[e.id] > 1 || e.id == "" {
			t.Errorf("event %q %s came %d times", e.id, e.Type, seen[e.id])
		}
		if e.Type == session.EventTurnEnded {
			replies = append(replies, e.Reply)
		}
	}
	expect.List(t, "replies", replies, "echo: one", "echo: two")
}

// switching is a proxy that gives connections to two gateways in turn.
func switching(t *testing.T, gateways ...*httptest.Server) *httptest.Server {
	t.Helper()
	var n atomic.Int64
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
		target, err := url.Parse(gateways[int(n.Add(1))%len(gateways)].URL)
		if err != nil {
			panic(err)
		}
		p.SetURL(target)
	}}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server
}

// Two gateways behind a proxy that switches between them: an interrupted stream continues at the
// other one, and its client sees every event once, in order.
func TestStreamGoesOnAtAnotherGateway(t *testing.T) {
	t.Parallel()
	one := newRig(t)
	two := rigOn(t, one.redis)
	first, second := httptest.NewServer(one.gateway), httptest.NewServer(two.gateway)
	t.Cleanup(func() {
		first.CloseClientConnections()
		first.Close()
		second.CloseClientConnections()
		second.Close()
	})
	one.worker()
	r := *one
	r.url = switching(t, first, second).URL
	const turns = 4
	for i := range turns {
		r.call("POST", "/v1/sessions/s/messages", object{"text": "tool=look:1ms tick=50ms stream=10 abcdefghijklmnopqrstuvwxyz"},
			header("Idempotency-Key", string(rune('a'+i)))).want(202)
	}
	var ids []string
	last, ended, text := "", 0, ""
	for ended < turns {
		s := r.stream("s", last)
		for range 3 { // then the connection breaks
			e := s.next()
			ids, last = append(ids, e.id), e.id
			switch e.Type {
			case "text":
				text += e.Text
			case "tool_start":
				text = ""
			case session.EventTurnEnded:
				if ended++; !strings.HasPrefix(e.Reply, text) {
					t.Errorf("the pieces were %q, the reply is %q", text, e.Reply)
				}
				text = ""
			}
			if ended == turns {
				break
			}
		}
		s.close()
	}
	all := r.stream("s", "")
	for i, id := range ids {
		if e := all.next(); e.id != id {
			t.Fatalf("event %d: the broken streams had %s, the whole one has %s", i, id, e.id)
		}
	}
	if len(ids) < turns*6 {
		t.Errorf("only %d events", len(ids))
	}
}

// A client that does not read is disconnected, and its gateway buffers only a few of its events.
func TestSlowReaderIsCutOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	expect.OK(t, err)
	defer conn.Close()
	expect.OK(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = io.WriteString(conn, "GET /v1/sessions/s/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	expect.OK(t, err)
	for range 12 { // more than the buffers of both sides
		r.say("s", strings.Repeat("x", 900_000))
	}
	expect.Soon(t, "the end of the stream", func() bool { return r.gateway.OpenStreams() == 0 })
}

// What answers at Redis' address is not a Redis: senders are told that Redis is away, and the log has the
// answer.
func TestSomethingElseAnswersInRedisPlace(t *testing.T) {
	t.Parallel()
	for answer, logged := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": "HTTP/1.1 400 Bad Request",
		"SSH-2.0-OpenSSH_9.6\r\n":          "SSH-2.0-OpenSSH_9.6",
		":1\r\n":                           "another service replies in Redis' place",
		"\x15\x03\x01\x00\x02\x02\x16":     "does it want TLS",
	} {
		for _, later := range []bool{false, true} {
			rdb, err := redisconn.Open("redis://" + redistest.Stranger(t, answer, later))
			expect.OK(t, err)
			t.Cleanup(func() { _ = rdb.Close() })
			var log bytes.Buffer
			r := rigWith(t, rdb, func(d *gateway.Deps) { d.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			r.call("POST", "/v1/sessions/s/messages", object{"text": "hi"}).problem(503, gateway.RedisUnavailable)
			r.call("GET", "/v1/sessions/s", nil).problem(503, gateway.RedisUnavailable)
			contains(t, "log", log.String(), logged)
		}
	}
}

// Without a file descriptor for Redis the gateway is overloaded, whatever runs in Redis, and says so once a
// minute.
func TestNoDescriptorForRedis(t *testing.T) {
	t.Parallel()
	rdb, err := redisconn.Open("redis://127.0.0.1:1", func(o *redis.UniversalOptions) {
		o.Dialer = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}
	})
	expect.OK(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	var log bytes.Buffer
	r := rigWith(t, rdb, func(d *gateway.Deps) { d.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 2 {
		p := r.call("POST", "/v1/sessions/s/messages", object{"text": "hi"}).problem(503, gateway.Overloaded)
		contains(t, "detail", p.Detail, "no file descriptor left. Nothing was changed.")
	}
	expect.Equal(t, "lines of the log", strings.Count(log.String(), "\n"), 1)
	contains(t, "log", log.String(), "ulimit -n")
}
