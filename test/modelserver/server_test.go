package modelserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const streaming = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}]}`

func post(t *testing.T, ctx context.Context, s *Server, body string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return client.Do(r)
}

func ask(t *testing.T, s *Server, body string) (status int, header http.Header, answer string, err error) {
	t.Helper()
	resp, err := post(t, t.Context(), s, body)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(data), err
}

func TestStream(t *testing.T) {
	t.Parallel()
	s := New(t, Stream(Text("a", "b"), Thought("t"), Call("c1", "ls", `{"x":`, `1}`), UseCached(7, 3, 2)))
	status, header, got, err := ask(t, s, streaming)
	if status != 200 || err != nil || header.Get("Content-Type") != "text/event-stream" || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("%d, %v, %v", status, header, err)
	}
	at := 0
	for _, want := range []string{
		`"content":"a"`, `"content":"b"`, `"reasoning_content":"t"`, `"name":"ls"`, `"id":"c1"`, `"arguments":"{\"x\":"`, `"arguments":"1}"`,
		`"finish_reason":"tool_calls"`, `"cached_tokens":3`,
	} {
		i := strings.Index(got, want)
		if i < 0 {
			t.Errorf("%s is missing: %s", want, got)
		}
		if want != `"id":"c1"` && i < at {
			t.Errorf("%s comes too early", want)
		}
		at = i
	}
	r := s.Requests()[0]
	if r.Model != "m" || !r.Stream || r.Last() != "hi" || fmt.Sprint(r.Messages[0].Images()) != "[http://x/y.png]" || string(r.Body) != streaming {
		t.Errorf("%+v", r)
	}
}

func TestNoStream(t *testing.T) {
	t.Parallel()
	s := New(t, Stream(Text("a", "b"), Call("c1", "ls", `{`, `}`), Use(1, 2)))
	_, header, got, err := ask(t, s, `{"model":"m","messages":[]}`)
	want := `{"choices":[{"finish_reason":"tool_calls","index":0,"message":{"content":"ab","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"ls"},"id":"c1","type":"function"}]}}],`
	if err != nil || header.Get("Content-Type") != "application/json" || !strings.HasPrefix(got, want) || !strings.Contains(got, `"total_tokens":3`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		answer     Response
		status     int
		body, wait string
	}{
		{RateLimited("7"), 429, "rate_limit_exceeded", "7"},
		{RateLimited(HTTPDate(at)), 429, "rate_limit_exceeded", "Sat, 21 Nov 2026 10:00:00 GMT"},
		{Error(503, "overloaded", "busy").RetryAfter("1"), 503, `"message":"busy"`, "1"},
		{Plain(502, "text/html", "<h1>"), 502, "<h1>", ""},
		{Plain(200, "text/plain", "hello"), 200, "hello", ""},
		{ContextTooLong(), 400, `"code":"context_length_exceeded"`, ""},
		{Unauthorized(), 401, "invalid_api_key", ""},
	} {
		s := New(t, c.answer)
		status, header, body, err := ask(t, s, streaming)
		if err != nil || status != c.status || !strings.Contains(body, c.body) || header.Get("Retry-After") != c.wait {
			t.Errorf("%d %v %s %v", status, header, body, err)
		}
	}
}

func TestCuts(t *testing.T) {
	t.Parallel()
	s := New(t, CutBefore(), Stream(Text("begin"), Cut(), Text("never")))
	if _, _, _, err := ask(t, s, streaming); err == nil {
		t.Error("there was an answer")
	}
	_, _, body, err := ask(t, s, streaming)
	if err == nil || !strings.Contains(body, "begin") || strings.Contains(body, "never") {
		t.Errorf("%q, %v", body, err)
	}
}

// A gate holds the stream, and a hang lasts until the client goes away.
func TestGates(t *testing.T) {
	t.Parallel()
	gate, before := make(chan struct{}), make(chan struct{})
	s := New(t, Stream(Text("one"), Do(func() { close(before) }), Wait(gate), Text("two"), Hang()), HangBefore())
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := post(t, ctx, s, streaming)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	until := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatal(lines.Err())
	}
	until(`"one"`)
	<-before
	close(gate)
	until(`"two"`)
	cancel()
	for lines.Scan() {
	}
	if lines.Err() == nil {
		t.Error("the stream ended")
	}
	if r, ok := s.Await(1); !ok || r.Model != "m" {
		t.Errorf("%+v", r)
	}
	short, stop := context.WithCancel(t.Context())
	go func() {
		s.Await(2)
		stop()
	}()
	if resp, err := post(t, short, s, streaming); err == nil {
		resp.Body.Close()
		t.Error("there was an answer")
	}
}

func TestOtherwiseAndModels(t *testing.T) {
	t.Parallel()
	s := Start()
	defer s.Close()
	if status, _, body, _ := ask(t, s, streaming); status != 400 || !strings.Contains(body, "no reply in the script") {
		t.Error(status, body)
	}
	s.Otherwise(func(r Request) Response { return Reply("you said " + r.Last()) })
	s.Script(Reply("first"))
	s.Models("a", "b")
	for _, want := range []string{"first", "you said hi"} {
		if _, _, body, _ := ask(t, s, strings.Replace(streaming, `"stream":true,`, "", 1)); !strings.Contains(body, `"`+want+`"`) {
			t.Error(body)
		}
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(s.URL() + "/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, _ := io.ReadAll(resp.Body); !strings.Contains(string(data), `"id":"b"`) {
		t.Error(string(data))
	}
	s.Close()
	if _, ok := s.Await(100); ok {
		t.Error("nobody asked")
	}
}
