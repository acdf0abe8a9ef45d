package model

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/test/modelserver"
)

func (r *rig) waited(want ...time.Duration) {
	r.Helper()
	if len(r.slept) != len(want) {
		r.Fatalf("waited %v, want %v", r.slept, want)
	}
	for i, w := range want {
		if r.slept[i] != w {
			r.Errorf("waited %v, want %v", r.slept, want)
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	overloaded := modelserver.Error(http.StatusServiceUnavailable, "overloaded", "busy")
	r := newRig(t, Config{},
		overloaded.RetryAfter("7"),
		modelserver.RateLimited(modelserver.HTTPDate(now.Add(11*time.Second))),
		overloaded.RetryAfter("1.5"),
		text("there"))
	r.agent.now = func() time.Time { return now }
	r.must(turn("go"))
	r.requests(4)
	r.waited(7*time.Second, 11*time.Second, 1500*time.Millisecond)
	// Only long waits are reported, and none for a server without room: its notice is that of the turn's pause.
	r.told(`
notice: Waiting 7s for the model's server, then trying again: the model's server failed (HTTP 503: busy).
text: there`)
}

// If the server sets no wait, the waits double, with jitter.
func TestBackoff(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{MaxRetries: 6}, modelserver.Error(500, "", "a"), modelserver.Plain(502, "text/html", "<html>"), modelserver.RateLimited(""),
		modelserver.Plain(529, "text/plain", "overloaded"), modelserver.Error(500, "", "a").RetryAfter("-3"), modelserver.Error(500, "", "a").RetryAfter("soon"), text("there"))
	r.must(turn("go"))
	r.requests(7)
	if len(r.slept) != 6 {
		t.Fatal(r.slept)
	}
	for i, most := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second} {
		if r.slept[i] > most*5/4 || r.slept[i] < most*3/4-1 {
			t.Errorf("wait %d is %s, want about %s", i+1, r.slept[i], most)
		}
	}
}

func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{MaxRetries: 2, Key: key})
	r.model.Otherwise(func(modelserver.Request) modelserver.Response {
		return modelserver.Error(503, "", "busy, "+key+" "+strings.Repeat("long ", 1000))
	})
	err := r.run(turn("go"))
	r.says(err, true, "failed (HTTP 503: busy", "after 3 tries", "[the key]")
	if len(err.Error()) > 500 {
		t.Errorf("%d bytes", len(err.Error()))
	}
	r.requests(3)
}

// A turn waits once for a busy server while it runs, if that is short enough. Then the server is asked again in a later
// run. The user learns it once, and later runs ask once.
func TestBusyServerEndsTheRun(t *testing.T) {
	t.Parallel()
	busy, unavailable := modelserver.RateLimited, modelserver.Error(http.StatusServiceUnavailable, "overloaded", "busy")
	for name, c := range map[string]struct {
		config    Config
		before    int // waits of earlier runs
		responses []modelserver.Response
		slept     []time.Duration
		asked     time.Duration
		told      string
	}{
		"longer than a turn waits": {Config{}, 0, []modelserver.Response{busy("21")}, nil, 21 * time.Second, "notice: The model's server has no room now: this turn goes on in 21s."},
		"then after a minute":      {Config{}, 0, []modelserver.Response{busy("1"), busy("1")}, []time.Duration{time.Second}, time.Minute, "notice: The model's server has no room now: this turn goes on in 1m0s."},
		"or when the server asks":  {Config{}, 0, []modelserver.Response{busy("20"), busy("90")}, []time.Duration{20 * time.Second}, 90 * time.Second, "notice: The model's server has no room now: this turn goes on in 1m30s."},
		"the second has no time":   {Config{}, 0, []modelserver.Response{busy("20"), busy("")}, []time.Duration{20 * time.Second}, 0, "notice: The model's server has no room now: this turn goes on when it has."},
		"failures in between":      {Config{}, 0, []modelserver.Response{unavailable.RetryAfter("2"), busy("3"), unavailable.RetryAfter("4"), busy("")}, []time.Duration{2 * time.Second, 3 * time.Second, 4 * time.Second}, 0, "notice: The model's server has no room now: this turn goes on when it has."},
		"no retries":               {Config{MaxRetries: -1}, 0, []modelserver.Response{busy("1")}, nil, time.Second, "notice: The model's server has no room now: this turn goes on in 1s."},
		"a later run":              {Config{}, 1, []modelserver.Response{busy("1")}, nil, time.Second, ""},
		"not 429":                  {Config{}, 0, []modelserver.Response{unavailable.RetryAfter("300")}, nil, 5 * time.Minute, "notice: The model's server has no room now: this turn goes on in 5m0s."},
		"in a stream":              {Config{}, 0, []modelserver.Response{modelserver.Stream(modelserver.Raw(`data: {"error":{"code":"rate_limit_exceeded","message":"Please try again in 60s."}}` + "\n\n"))}, nil, time.Minute, "notice: The model's server has no room now: this turn goes on in 1m0s."},
		"in a body of success":     {Config{}, 0, []modelserver.Response{modelserver.Plain(200, "application/json", `{"error":{"message":"Please try again in 60s.","type":"rate_limit_error"}}`)}, nil, time.Minute, "notice: The model's server has no room now: this turn goes on in 1m0s."},
		"for ever":                 {Config{}, 0, []modelserver.Response{busy(strconv.FormatFloat(math.MaxFloat64, 'e', -1, 64))}, nil, longest, "notice: The model's server has no room now: this turn goes on in 1000h0m0s."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.config, c.responses...)
			in := turn("go")
			in.Throttled = c.before
			err := r.run(in)
			if !errors.Is(err, agent.ErrThrottled) || agent.ThrottledFor(err) != c.asked {
				t.Errorf("got %v, which asks for %s, want %s", err, agent.ThrottledFor(err), c.asked)
			}
			r.requests(len(c.responses))
			r.waited(c.slept...)
			r.told(c.told)
		})
	}
}

func TestTurnWaitsOnceForABusyServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{}, modelserver.RateLimited("2"), call("c1", "none", "{}"), modelserver.RateLimited("2"))
	_, err := newJournal(t).run(r, turn("go"))
	r.says(err, true, "too many requests")
	r.requests(3)
	r.waited(2 * time.Second)
}

// A failure is final once the turn has emitted text or used a tool.
func TestRetriesAfterATool(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{MaxRetries: 1, Tools: []Tool{shell("cat", "cat")}},
		call("c1", "cat", `{}`), modelserver.CutBefore(), modelserver.RateLimited("1"))
	r.says(r.run(turn("go")), false, "too many requests")
	r.requests(3)
}

func TestConnectionLostBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{}, modelserver.CutBefore(), modelserver.Stream(modelserver.Thought("hm"), modelserver.Cut()),
		modelserver.Stream(modelserver.Call("c1", "x", `{`), modelserver.Cut()), modelserver.Stream(modelserver.Raw("data: {\n\n")), text("there"))
	r.must(turn("go"))
	r.requests(5)
	r.told("thought: hm\ntext: there")
}

func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := "http://user:hidden@" + l.Addr().String() + "/v1"
	_ = l.Close()
	r := newRig(t, Config{URL: at, MaxRetries: 2})
	err = r.run(turn("go"))
	r.says(err, true, "does not respond", "refused", "after 3 tries", l.Addr().String())
	if strings.Contains(err.Error(), "hidden") {
		t.Errorf("the password is in %v", err)
	}
	if len(r.slept) != 2 {
		t.Errorf("waited %v", r.slept)
	}
}

func TestBrokenInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]modelserver.Step{
		"cut":     modelserver.Cut(),
		"no JSON": modelserver.Raw("data: {\n\n"),
		"error":   modelserver.Raw(`data: {"error":{"message":"overloaded","code":503}}` + "\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{}, modelserver.Stream(modelserver.Text("half"), end))
			r.says(r.run(turn("go")), false, "broke off in the middle")
			r.told("text: half")
			r.requests(1)
		})
	}
}

// The stream closes normally, but before its last event.
func TestStreamWithoutItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{}, modelserver.Plain(200, "text/event-stream", ": hello\n\n"),
		modelserver.Plain(200, "text/event-stream", `data: {"choices":[{"delta":{"content":"a"}}]}`+"\n\n"))
	r.says(r.run(turn("go")), false, "broke off in the middle", "ended in the middle")
	r.requests(2)
}

func TestErrorsInTheStream(t *testing.T) {
	t.Parallel()
	event := func(data string) modelserver.Response {
		return modelserver.Stream(modelserver.Raw("data: " + data + "\n\n"))
	}
	whole := func(body string) modelserver.Response { return modelserver.Plain(200, "application/json", body) }
	r := newRig(t, Config{MaxRetries: 7}, event(`{"error":{"message":"overloaded"}}`), event(`{"error":"busy"}`), event(`{"error":null}`),
		whole(`{"error":{"message":"overloaded"}}`), whole(`{"error":"busy"}`), whole(`{"code":500,"msg":"busy","success":false}`),
		event(`{"choices":null,"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`), text("there"))
	r.must(turn("go"))
	r.requests(8)
	r = newRig(t, Config{MaxRetries: -1}, whole(`{"error":{"message":"what?"}}`))
	r.says(r.run(turn("go")), true, "an error in the stream: what?")
	r = newRig(t, Config{MaxRetries: -1}, event(`{"error":"busy"}`))
	r.says(r.run(turn("go")), true, "an error in the stream: busy")
	r = newRig(t, Config{}, event(`{"error":{"message":"This model's maximum context length is 1"}}`))
	r.says(r.run(turn("go")), false, "/new")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer modelserver.Response
		key    string
		want   []string
	}{
		{modelserver.ContextTooLong(), key, []string{"too long for the model m", "/new", "/undo", "context_tokens of TURNSTILE_MODEL_FILE lower than 32000"}},
		{modelserver.Plain(400, "application/json", `{"object":"error","message":"Input is too long"}`), key, []string{"/new"}},
		{modelserver.Plain(400, "application/json", `{"error":{"message":"a","type":"exceed_context_size_error","code":400}}`), key, []string{"/new"}},
		{modelserver.Plain(413, "text/html", "<h1>"), key, []string{"/new"}},
		{modelserver.Unauthorized(), key, []string{"refused the key (HTTP 401)", "TURNSTILE_MODEL_KEY"}},
		{modelserver.Unauthorized(), "", []string{"wants a key", "set TURNSTILE_MODEL_KEY"}},
		{modelserver.Error(400, "no", strings.Repeat("x", maxMessage-len(noKey))+key), key, []string{noKey}},
		{modelserver.Error(403, "no", "not for "+key), key, []string{"(HTTP 403: not for [the key])", "TURNSTILE_MODEL_KEY"}},
		{modelserver.Plain(404, "application/json", `{"error":"model not found"}`), key, []string{"does not know the model m", "(HTTP 404: model not found)", "TURNSTILE_MODEL", "TURNSTILE_MODEL_URL", "http://127.0.0.1:"}},
		{modelserver.Plain(404, "text/plain", "404 page not found\n"), key, []string{"(HTTP 404: 404 page not found)"}},
		{modelserver.Error(429, "insufficient_quota", "pay"), key, []string{"no credit left", "HTTP 429: pay"}},
		{modelserver.Plain(422, "application/json", `{"detail":[{"loc":["x"]}]}`), key, []string{`refused the request (HTTP 422: [{"loc":["x"]}])`}},
		{modelserver.Error(400, "x", "no image"), key, []string{"refused the request (HTTP 400: no image)"}},
		{modelserver.Plain(200, "text/html", "<h1>hello"), key, []string{"does not stream", "TURNSTILE_MODEL_URL"}},
		{modelserver.Plain(200, "application/json", `{"hello":"there"}`), key, []string{"does not stream", `no stream: {"hello":"there"}`}},
		{modelserver.Plain(400, "application/json", `[{"error":{"code":400,"message":"Invalid argument","status":"INVALID_ARGUMENT"}}]`), key, []string{"(HTTP 400: Invalid argument)"}},
		{modelserver.Error(429, "rate_limit_exceeded", "Request too large for m on tokens per min (TPM): Limit 30000, Requested 57390."), key, []string{"/new"}},
	} {
		r := newRig(t, Config{Key: c.key}, c.answer)
		r.says(r.run(turn("go")), false, c.want...)
		r.requests(1)
		r.told("")
	}
}

func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{}, modelserver.Error(http.StatusServiceUnavailable, "", "busy").RetryAfter("20"))
	r.agent.sleep = sleep
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := r.agent.Run(ctx, emitting(turn("go"), func(agent.Event) { cancel(cause) })) // the notice
	if !errors.Is(err, cause) {
		t.Error(err)
	}
}

func TestInterruptedWhileAsking(t *testing.T) {
	t.Parallel()
	cause := errors.New("stopped")
	for name, answer := range map[string]modelserver.Response{
		"before": modelserver.HangBefore(), "in the stream": modelserver.Stream(modelserver.Text("a"), modelserver.Hang()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{}, answer)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				r.model.Await(1)
				cancel(cause)
			}()
			_, err := r.agent.Run(ctx, emitting(turn("go"), r.emit))
			if !errors.Is(err, cause) || errors.Is(err, agent.ErrRetryable) {
				t.Error(err)
			}
			r.requests(1)
		})
	}
	r := newRig(t, Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := r.agent.Run(ctx, emitting(turn("go"), r.emit)); !errors.Is(err, cause) {
		t.Error(err)
	}
	r.requests(0)
}

func TestASleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	if err := sleep(ctx, time.Millisecond); err != nil {
		t.Error(err)
	}
	cancel()
	if err := sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
