package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"turnstile/internal/http/gateway"
	"turnstile/test/expect"
)

func TestBadBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/sessions/s/messages"
	for body, want := range map[string]gateway.Code{
		``:                                 gateway.UnsupportedMediaType,
		`{`:                                gateway.InvalidJSON,
		`{"text": "a"} {}`:                 gateway.InvalidJSON,
		`{"text": "a"`:                     gateway.InvalidJSON,
		`["a"]`:                            gateway.InvalidJSON,
		`"a"`:                              gateway.InvalidJSON,
		`{"text": 1}`:                      gateway.InvalidJSON,
		`{"text": "a", "meta": []}`:        gateway.InvalidJSON,
		`{"text": "a", "meta": {"k": 1}}`:  gateway.InvalidJSON,
		`{"text": "a", "commands": "yes"}`: gateway.InvalidJSON,
		`{"text": "a", "delay": "soon"}`:   gateway.InvalidRequest,
		`{"text": "\ud800", "mode": "queue", "v": {"x": `:      gateway.InvalidJSON,
		`{"text": "a", "text": "b"}`:                           gateway.InvalidJSON,
		`{"text": "a", "meta": {"k": "1", "k": "2"}}`:          gateway.InvalidJSON,
		"{\"text\": \"\xff\"}":                                 gateway.InvalidJSON,
		`null`:                                                 gateway.InvalidRequest,
		`{}`:                                                   gateway.InvalidRequest,
		`{"text": ""}`:                                         gateway.InvalidRequest,
		`{"text": " \n"}`:                                      gateway.InvalidRequest,
		`{"text": "a", "v": 2}`:                                gateway.InvalidRequest,
		`{"text": "a", "mode": "x"}`:                           gateway.InvalidRequest,
		`{"text": "a", "delay": "-1s"}`:                        gateway.InvalidRequest,
		`{"text": "a", "expires_in": "-1s"}`:                   gateway.InvalidRequest,
		`{"text": "a", "as": "a/b"}`:                           gateway.InvalidRequest,
		`{"text": "a", "as": "a\u0000"}`:                       gateway.InvalidRequest,
		`{"text": "a", "meta": {"sender": "boss"}}`:            gateway.InvalidRequest,
		`{"text": "a", "meta": {"sender_name": "boss"}}`:       gateway.InvalidRequest,
		`{"text": "a", "name": "Alice\nBob"}`:                  gateway.InvalidRequest,
		`{"text": "a", "name": "\u202eecilA"}`:                 gateway.InvalidRequest,
		`{"text": "a", "name": "a\u2028b"}`:                    gateway.InvalidRequest,
		`{"text": "a", "name": " "}`:                           gateway.InvalidRequest,
		`{"text": "a", "attachments": [{"name": "f"}]}`:        gateway.InvalidRequest,
		`{"text": "a", "attachments": [{"url": "https://x"}]}`: gateway.InvalidRequest,
		`{"text": "a", "attachments": [{}` + strings.Repeat(",{}", 100_000) + `]}`: gateway.InvalidJSON,
		`{"text": "a"} [{}` + strings.Repeat(",{}", 100_000) + `] x`:               gateway.InvalidJSON,
		`{"text": "a", "name": "` + strings.Repeat("a", 81) + `"}`:                 gateway.InvalidRequest,
		`{"Text": "a"}`:            gateway.UnknownFields,
		`{"text": "a", "id": "m"}`: gateway.UnknownFields,
		`{"text": ` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`:    gateway.InvalidJSON,
		`{"x": ` + strings.Repeat(`{"a":`, 9_000) + `1` + strings.Repeat("}", 9_000) + `}`: gateway.UnknownFields,
	} {
		status := map[gateway.Code]int{gateway.UnsupportedMediaType: 415}[want]
		if status == 0 {
			status = 400
		}
		p := r.call("POST", path, body).problem(status, want)
		if p.Detail == "" {
			t.Errorf("%.60s: no detail", body)
		}
	}
	for body, want := range map[string]string{
		`{"text": "a", "delay": 90}`:       `delay is of the JSON type number; it must be a duration such as "90s".`,
		`{"text": "a", "expires_in": [1]}`: `expires_in is of the JSON type array; it must be a duration such as "90s".`,
		`{"text": "a", "commands": "yes"}`: `commands is of the JSON type string; it must be true or false.`,
	} {
		p := r.call("POST", path, body).problem(400, gateway.InvalidJSON)
		expect.Equal(t, body, p.Title+": "+p.Detail, "The body is not JSON that this request takes: "+want)
		expect.List(t, "field", p.Fields, strings.Fields(want)[0])
	}
	p := r.call("POST", path, `{"text": "a", "b": 1, "attachments": [{"name": "f", "url": "u", "a": {}}], "Mode": ""}`).problem(400, gateway.UnknownFields)
	expect.List(t, "unknown", p.Fields, "Mode", "attachments[0].a", "b")
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/jsonx"} {
		r.call("POST", path, `{"text": "a"}`, header("Content-Type", kind)).problem(415, gateway.UnsupportedMediaType)
	}
	r.call("POST", path, `{"text": "a"}`, header("Content-Type", "Application/JSON; charset=utf-8")).want(202)
	r.call("POST", "/v1/sessions/s/stop", `{"now": true}`).problem(400, gateway.UnknownFields)
	if n := r.redis.LLen(t.Context(), "asynq:{session:s}:pending").Val(); n != 1 {
		t.Errorf("%d messages are stored", n)
	}
}

func TestBadPathsAndQueries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, want := range map[string]gateway.Code{
		"/v1/sessions/-x":                                          gateway.InvalidRequest,
		"/v1/sessions/a%2Fb":                                       gateway.InvalidRequest,
		"/v1/sessions/a%00b":                                       gateway.InvalidRequest,
		"/v1/sessions/%7Bsession%7D":                               gateway.InvalidRequest,
		"/v1/sessions/" + strings.Repeat("a", 257):                 gateway.InvalidRequest,
		"/v1/sessions/s/messages/a%20b":                            gateway.InvalidRequest,
		"/v1/sessions/s/messages/m?wait=soon":                      gateway.InvalidRequest,
		"/v1/sessions/s/messages/m?wait=-1s":                       gateway.InvalidRequest,
		"/v1/sessions/s/transcript?limit=0":                        gateway.InvalidRequest,
		"/v1/sessions/s/transcript?limit=501":                      gateway.InvalidRequest,
		"/v1/sessions/s/transcript?before=x":                       gateway.InvalidRequest,
		"/v1/sessions/s/transcript?page=2":                         gateway.InvalidRequest,
		"/v1/sessions/s/messages/m?wait=1s&wait=2s":                gateway.InvalidRequest,
		"/v1/sessions/s/messages/m?wait=%zz":                       gateway.InvalidRequest,
		"/v1/sessions/s/messages/m?wait=1s;x":                      gateway.InvalidRequest,
		"/v1/sessions/s/messages/m?" + strings.Repeat("x", 10_000): gateway.InvalidRequest,
		"/v1/sessions/s%252Fb":                                     gateway.InvalidRequest,
		"/v1/sessions/..%2F..%2Fdead":                              gateway.InvalidRequest,
		"/v1/sessions/%FF":                                         gateway.InvalidRequest,
		"/v1/sessions/s%0A":                                        gateway.InvalidRequest,
		"/v1/dead?session=a/b":                                     gateway.InvalidRequest,
		"/v1/sessions/s/transcript":                                gateway.UnknownSession,
		"/v1/sessions/s":                                           gateway.UnknownSession,
		"/v1/sessions/s/nothing":                                   gateway.NotFound,
		"/v2/sessions":                                             gateway.NotFound,
		"/":                                                        gateway.NotFound,
	} {
		status := 400
		if want != gateway.InvalidRequest {
			status = 404
		}
		r.call("GET", path, nil).problem(status, want)
	}
	a := r.call("PUT", "/v1/sessions/s", nil)
	a.problem(405, gateway.MethodNotAllowed)
	expect.Equal(t, "Allow", a.Header.Get("Allow"), "GET, HEAD, DELETE")
	r.call("DELETE", "/v1/sessions/s", nil).problem(404, gateway.UnknownSession)
}

func TestLargeBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/sessions/s/messages"
	r.call("POST", path, object{"text": strings.Repeat("x", 2<<20-100)}).want(202)
	r.call("POST", path, object{"text": strings.Repeat("x", 2<<20-1)}).problem(413, gateway.MessageTooLarge)
	r.call("POST", path, object{"text": "x", "meta": object{"k": strings.Repeat("x", 2<<20)}}).problem(413, gateway.MessageTooLarge)
	r.call("POST", path, object{"text": strings.Repeat("x", 2<<20)}).problem(413, gateway.MessageTooLarge)
	r.call("POST", path, object{"text": strings.Repeat("x", 2<<20+32<<10)}).problem(413, gateway.BodyTooLarge)
	r.call("POST", path, strings.Repeat(" ", 2<<20+32<<10)).problem(413, gateway.BodyTooLarge)
}

// A client that sends its body slowly gets a problem, and its connection is closed.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, want := range map[string]int{"/v1/sessions/s/messages": 408, "/v1/nothing": 404} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
			expect.OK(t, err)
			defer conn.Close()
			_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"text\": ", path)
			expect.OK(t, err)
			expect.OK(t, conn.SetReadDeadline(time.Now().Add(expect.Patience)))
			reader := bufio.NewReader(conn)
			response, err := http.ReadResponse(reader, nil)
			expect.OK(t, err)
			expect.Equal(t, "status", response.StatusCode, want)
			_, err = io.ReadAll(response.Body)
			expect.OK(t, err)
			if _, err := reader.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection is still open: %v", err)
			}
		})
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.call("GET", "/openapi.yaml", nil, header("X-Request-Id", "mine.1"), header("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")).want(200)
	expect.Equal(t, "request id", a.Header.Get("X-Request-Id"), "mine.1")
	expect.Equal(t, "traceparent", a.Header.Get("Traceparent"), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	for _, odd := range []string{"", "a b", "<x>", strings.Repeat("x", 129)} {
		if id := r.call("GET", "/openapi.yaml", nil, header("X-Request-Id", odd)).Header.Get("X-Request-Id"); id == odd || id == "" {
			t.Errorf("%q became %q", odd, id)
		}
	}
}

func TestHostsAndOrigins(t *testing.T) {
	t.Parallel()
	const path = "/v1/sessions/s/messages"
	body := object{"text": "x"}
	open := newRig(t)
	for _, host := range []string{"evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", ""} {
		if host != "" {
			open.call("GET", "/v1/dead", nil, header("Host", host)).problem(403, gateway.WrongHost)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:1", "[::1]:8081", "127.0.0.1"} {
		open.call("GET", "/v1/dead", nil, header("Host", host)).want(200)
	}
	for _, foreign := range []edit{header("Origin", "https://evil.example"), header("Origin", "null"), header("Sec-Fetch-Site", "cross-site")} {
		open.call("POST", path, body, foreign).problem(403, gateway.CrossOrigin)
		open.call("GET", "/v1/dead", nil, foreign).want(200)
	}
	open.call("POST", path, body, header("Sec-Fetch-Site", "same-origin")).want(202)

	r := newRig(t, func(c *gateway.Config) {
		c.Hosts, c.Origins = []string{"api.example", "127.0.0.1"}, []string{"https://chat.example"}
	})
	r.call("GET", "/v1/dead", nil, header("Host", "localhost")).problem(403, gateway.WrongHost)
	r.call("GET", "/v1/dead", nil, header("Host", "API.example:443")).want(200)
	mine := header("Origin", "https://chat.example")
	a := r.call("POST", path, body, mine, header("Sec-Fetch-Site", "cross-site")).want(202)
	expect.Equal(t, "allowed", a.Header.Get("Access-Control-Allow-Origin"), "https://chat.example")
	a = r.call("OPTIONS", path, nil, mine, header("Access-Control-Request-Method", "POST"), header("Access-Control-Request-Headers", "authorization, x-stainless-lang, x-turnstile-session"))
	expect.Equal(t, "preflight", a.StatusCode, 204)
	contains(t, "headers", a.Header.Get("Access-Control-Allow-Headers"), "authorization, x-stainless-lang, x-turnstile-session")
	other := header("Origin", "https://evil.example")
	a = r.call("OPTIONS", path, nil, other, header("Access-Control-Request-Method", "POST"))
	expect.Equal(t, "foreign preflight", a.StatusCode, 405)
	expect.Equal(t, "not allowed", a.Header.Get("Access-Control-Allow-Origin"), "")
	expect.Equal(t, "varies", a.Header.Get("Vary"), "Origin")
	r.call("POST", path, body, other).problem(403, gateway.CrossOrigin)
}

func TestLimitsOfATokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, threeTokens), func(c *gateway.Config) { c.Rate, c.Streams = 3, 2 })
	for range 3 {
		r.as("web").call("GET", "/v1/sessions/web:1/messages/m", nil).problem(404, gateway.UnknownMessage)
	}
	var a answer
	expect.Soon(t, "a refusal", func() bool { // on a slow machine a second passes, and more are allowed
		a = r.as("web").call("GET", "/v1/sessions/web:1/messages/m", nil)
		return a.StatusCode != http.StatusNotFound
	})
	a.problem(429, gateway.RateLimited)
	expect.Equal(t, "Retry-After", a.Header.Get("Retry-After"), "1")
	eye := r.as("eye")
	one := eye.stream("web:1", "")
	eye.stream("web:2", "")
	eye.call("GET", "/v1/sessions/web:3/events", nil).problem(429, gateway.TooManyStreams)
	one.close()
	<-one.done
	expect.Soon(t, "the place", func() bool {
		s, a := eye.open(r.url + "/v1/sessions/web:3/events")
		return s != nil || a.StatusCode != http.StatusTooManyRequests
	})
}

// What a route does not take is refused, and nothing is stored: a query parameter, a field of the body, also one that
// only another program's messages have.
func TestNothingIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for operation, all := range attempts {
		method, path, _ := strings.Cut(operation, " ")
		if path == "/metrics" || strings.HasPrefix(path, "/v1/responses") || strings.HasPrefix(path, "/v1/conversations") || strings.HasPrefix(path, "/v1/chat") {
			continue // a collector's parameters, and OpenAI's clients, whose fields docs/openai-api.md lists
		}
		a := all[0]
		odd := a
		if odd.path == "" {
			odd.path = path
		}
		separator := "?"
		if strings.Contains(odd.path, "?") {
			separator = "&"
		}
		odd.path += separator + "nope=1"
		odd.send(r, operation, "s").problem(400, gateway.InvalidRequest)
		if method != http.MethodPost {
			continue
		}
		for _, field := range []string{"nope", "request"} {
			a.body = fmt.Sprintf(`{%q: {}, %s`, field, strings.TrimPrefix(all[0].body, "{"))
			if all[0].body == "" {
				a.body = fmt.Sprintf(`{%q: {}}`, field)
			}
			expect.List(t, a.about(operation), a.send(r, operation, "s").problem(400, gateway.UnknownFields).Fields, field)
		}
	}
	expect.Equal(t, "keys", r.redis.DBSize(t.Context()).Val(), 0)
}
