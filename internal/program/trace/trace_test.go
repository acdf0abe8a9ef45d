package trace_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// Secrets and texts that may not leave, whatever is traced.
const (
	apiToken  = "the-token-of-the-test"
	hookKey   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	userText  = "the words of the user, say ask"
	replyText = "the words of the agent"
	toolText  = "the words of the tool"
	failText  = "the words of the failure"
)

// agentProgram runs a tool and replies. It notes the TRACEPARENT of each of its runs.
const agentProgram = `#!/bin/sh
read -r turn
echo "$TRACEPARENT" >>"$0.runs"
first=$(( $(wc -l <"$0.runs") == 1 ))
case "$first $turn" in
1*"say retry"*) echo '{"type":"error","message":"` + failText + `","retryable":true}'; exit ;;
1*"say hang"*) exec sleep 1000 ;;
*"say park"*)
	echo '{"type":"wait","key":"k"}'
	while read -r line; do case "$line" in *'"parked"'*) exit ;; *'"value"'*) break ;; esac; done ;;
*"say ask"*) echo '{"type":"ask","id":"q","name":"` + toolText + `"}'; read -r decision ;;
esac
echo '{"type":"tool_start","name":"count","call_id":"c1","input":{"text":"` + toolText + `"}}'
echo '{"type":"tool_end","call_id":"c1","output":"` + toolText + `"}'
echo '{"type":"usage","usage":{"model":"m1","input_tokens":10,"cached_tokens":4,"output_tokens":2,"cost_usd":0.01}}'
echo '{"type":"text","text":"` + replyText + `"}'
`

// parts are a real worker and a real gateway, that export to a receiver.
type parts struct {
	*testing.T
	dir, agent string
	settings   []string // of both
	hooks      chan *http.Request
	gateway    string // its address
}

func newParts(t *testing.T, endpoint string, more ...string) *parts {
	t.Helper()
	p := &parts{T: t, dir: t.TempDir(), hooks: make(chan *http.Request, 10), settings: append([]string{
		"REDIS_URL=" + redistest.URL(t), "OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_BSP_SCHEDULE_DELAY=50",
		"TURNSTILE_SENTINEL_TTL=" + expect.Lease(time.Second).String(), "TURNSTILE_RETRY_BACKOFF=10ms",
	}, more...)}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		expect.OK(t, err)
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.hooks <- r
	}))
	t.Cleanup(hook.Close)
	p.agent = p.file("agent", agentProgram, 0o700)
	p.file("tokens", fmt.Sprintf(`[{"name": "a", "sha256": "%x", "sessions": ["*"], "may": ["read", "send"]}]`, sha256.Sum256([]byte(apiToken))), 0o600)
	p.file("destinations", fmt.Sprintf(`[{"name": "bot", "url": %q, "private": true, "secrets": [%q]}]`, hook.URL, hookKey), 0o600)
	return p
}

func (p *parts) file(name, text string, mode os.FileMode) string {
	p.Helper()
	path := filepath.Join(p.dir, name)
	expect.OK(p, os.WriteFile(path, []byte(text), mode))
	return path
}

func (p *parts) worker(more ...string) *program.Process {
	p.Helper()
	w := program.Start(p, program.Command(p, program.Build(p, "turnstile/cmd/worker"), append(append([]string{
		"TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_FORMAT=jsonl", "TURNSTILE_AGENT_COMMAND=" + p.agent,
	}, p.settings...), more...)))
	w.Output.Await(p, "worker started")
	return w
}

var serving = regexp.MustCompile(`serving HTTP" addr=(\S+)`)

func (p *parts) serve() *program.Process {
	p.Helper()
	var settings []string
	for _, s := range p.settings {
		if !strings.HasPrefix(s, "TURNSTILE_") { // a gateway knows no worker's
			settings = append(settings, s)
		}
	}
	g := program.Start(p, program.Command(p, program.Build(p, "turnstile/cmd/gateway"), append(settings,
		"TURNSTILE_GATEWAY_ADDR=127.0.0.1:0", "TURNSTILE_DELIVER=true",
		"TURNSTILE_GATEWAY_TOKENS_FILE="+p.dir+"/tokens", "TURNSTILE_GATEWAY_DESTINATIONS_FILE="+p.dir+"/destinations")))
	expect.Soon(p, "the address", func() bool { return serving.MatchString(g.Output.String()) })
	p.gateway = "http://" + serving.FindStringSubmatch(g.Output.String())[1]
	return g
}

// post sends a message over HTTP and waits for its end.
func (p *parts) post(text, traceparent string) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.gateway+"/v1/sessions/s/messages",
		strings.NewReader(fmt.Sprintf(`{"text": %q, "reply_to": "bot"}`, text)))
	expect.OK(p, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+apiToken)
	r.Header.Set("Prefer", "wait=60")
	if traceparent != "" {
		r.Header.Set("Traceparent", traceparent)
	}
	response, err := http.DefaultClient.Do(r)
	expect.OK(p, err)
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	expect.Equal(p, "status", response.StatusCode, http.StatusOK)
}

// runs are the TRACEPARENTs of the agent's runs, without version and flags.
func (p *parts) runs() (ids []string) {
	text, _ := os.ReadFile(p.agent + ".runs")
	for line := range strings.Lines(string(text)) {
		ids = append(ids, strings.TrimPrefix(strings.TrimSpace(line), "00-")[:49])
	}
	return ids
}

// One trace goes from the request to the delivery, with no text in it.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	for name, capture := range map[string]bool{"without texts": false, "with texts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newReceiver(t)
			p := newParts(t, got.URL, fmt.Sprint("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=", capture))
			p.worker()
			p.serve()
			const client = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
			ended := make(chan struct{})
			go func() { defer close(ended); p.post(userText, "00-"+client+"-01") }()
			hook := expect.Received(t, "the question's delivery", p.hooks)
			chat := turnstile.NewClient(redistest.New(t)).Session("s")
			_, err := chat.Decide(t.Context(), "1", session.Allow)
			expect.OK(t, err)
			<-ended
			turns := map[string]bool{hook.Header.Get("Webhook-Id"): true} // whether a delivery names a turn
			for range 2 {
				h := expect.Received(t, "the deliveries of the question's end and of the outcome", p.hooks)
				body, err := io.ReadAll(h.Body)
				expect.OK(t, err)
				turns[h.Header.Get("Webhook-Id")] = !bytes.Contains(body, []byte(`"type":"question.closed"`))
			}
			got.parents(t, turns)
			spans := got.await(t, "POST /v1/sessions/{s}/messages", "wait", "invoke_agent default", "execute_tool count", "deliver")
			request, wait, turn, tool, deliver := spans[0], spans[1], spans[2], spans[3], spans[4]
			for what, c := range map[string]struct{ got, want string }{
				"the request's parent":   {parent(request), client},
				"what the agent gets":    {p.runs()[0], own(turn)},
				"what the receiver gets": {hook.Header.Get("Traceparent"), "00-" + own(deliver) + "-01"},
				"kinds":                  {fmt.Sprint(request.GetKind(), turn.GetKind(), deliver.GetKind()), "SPAN_KIND_SERVER SPAN_KIND_INTERNAL SPAN_KIND_CLIENT"},
				"status":                 {attribute(request, "http.response.status_code"), "int_value:200"},
				"operation":              {attribute(turn, "gen_ai.operation.name"), `string_value:"invoke_agent"`},
				"agent":                  {attribute(turn, "gen_ai.agent.name"), `string_value:"default"`},
				"model":                  {attribute(turn, "gen_ai.response.model"), `string_value:"m1"`},
				"input":                  {attribute(turn, "gen_ai.usage.input_tokens"), "int_value:10"},
				"cached":                 {attribute(turn, "gen_ai.usage.cache_read.input_tokens"), "int_value:4"},
				"output":                 {attribute(turn, "gen_ai.usage.output_tokens"), "int_value:2"},
				"cost":                   {attribute(turn, "turnstile.cost_usd"), "double_value:0.01"},
				"end":                    {attribute(turn, "turnstile.status"), `string_value:"done"`},
				"tool":                   {attribute(tool, "gen_ai.tool.name"), `string_value:"count"`},
				"destination":            {attribute(deliver, "turnstile.destination"), `string_value:"bot"`},
			} {
				if strings.ReplaceAll(c.got, ": ", ":") != c.want {
					t.Errorf("%s: %s, want %s", what, c.got, c.want)
				}
			}
			if len(turn.GetLinks()) != 0 || wait.GetEndTimeUnixNano() > turn.GetEndTimeUnixNano() || wait.GetStartTimeUnixNano() > wait.GetEndTimeUnixNano() {
				t.Errorf("the turn %v, the wait %v", turn, wait)
			}
			for _, text := range []string{userText, replyText, toolText} {
				if strings.Contains(got.all(), text) != capture {
					t.Errorf("%q was exported: %t", text, !capture)
				}
			}
			for _, secret := range []string{apiToken, hookKey, hookKey[6:]} {
				if strings.Contains(got.all(), secret) {
					t.Errorf("%q was exported", secret)
				}
			}
		})
	}
}

// A turn that runs again is in the same trace, and is linked to the turn before: after a failure, a drain, a wait
// without a worker and a killed worker, also if its sender knows nothing of traces.
func TestRunsAgainLinkToTheTurnBefore(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *parts, w *program.Process){
		"retry": func(*parts, *program.Process) {},
		"park": func(p *parts, _ *program.Process) {
			chat := turnstile.NewClient(redistest.New(p.T)).Session("s")
			expect.Soon(p, "the turn to be parked", func() bool {
				info, err := chat.Info(p.Context())
				expect.OK(p, err)
				return info.Phase == session.PhaseParked
			})
			expect.OK(p, chat.Give(p.Context(), turnstile.Value{Key: "k", JSON: []byte("1")}))
		},
		"drain": func(p *parts, w *program.Process) {
			w.Signal(syscall.SIGTERM)
			w.ExitCode()
			p.worker()
		},
		"kill": func(p *parts, w *program.Process) {
			w.Kill()
			p.worker()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newReceiver(t)
			p := newParts(t, got.URL, "TURNSTILE_DRAIN_TIMEOUT=0s", "TURNSTILE_PARK_AFTER=10ms")
			text := "say " + name
			if name == "drain" || name == "kill" {
				text = "say hang"
			}
			w := p.worker()
			chat := turnstile.NewClient(redistest.New(t)).Session("s")
			_, err := chat.Send(t.Context(), turnstile.Message{ID: "before", Text: "hello"})
			expect.OK(t, err)
			_, err = chat.Wait(t.Context(), "before")
			expect.OK(t, err)
			expect.OK(t, os.Remove(p.agent+".runs"))
			_, err = chat.Send(t.Context(), turnstile.Message{ID: "m", Text: text})
			expect.OK(t, err)
			expect.Soon(t, "the first run", func() bool { return len(p.runs()) > 0 })
			end(p, w)
			outcome, err := chat.Wait(t.Context(), "m")
			expect.OK(t, err)
			expect.Equal(t, "status", outcome.Status, session.StatusDone)
			runs := p.runs()
			expect.Equal(t, "runs", len(runs), 2)
			second := got.awaitThe(t, "of the second run", func(s *otlp.Span) bool { return id(s.GetTraceId(), s.GetSpanId()) == runs[1] })
			links := second.GetLinks()
			if len(links) != 1 || id(links[0].GetTraceId(), links[0].GetSpanId()) != runs[0] || runs[0][:32] != runs[1][:32] {
				t.Errorf("the runs %v, the second one's links %v", runs, links)
			}
			if name == "retry" {
				first := got.awaitThe(t, "of the first run", func(s *otlp.Span) bool { return id(s.GetTraceId(), s.GetSpanId()) == runs[0] })
				expect.Equal(t, "error", first.GetStatus().GetCode(), otlp.Status_STATUS_CODE_ERROR)
			}
			if strings.Contains(got.all(), failText) {
				t.Error("an error's text was exported")
			}
		})
	}
}

// A receiver that is away, refuses, or never responds loses no message, and the worker's end waits for it only
// for a moment.
func TestReceiverFails(t *testing.T) {
	t.Parallel()
	for name, endpoint := range map[string]func(t *testing.T) string{
		"away": func(*testing.T) string { return "http://127.0.0.1:1" },
		"refuses": func(t *testing.T) string {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
			t.Cleanup(s.Close)
			return s.URL
		},
		"hangs": func(t *testing.T) string { // it accepts connections, and reads nothing
			l, err := net.Listen("tcp", "127.0.0.1:0")
			expect.OK(t, err)
			t.Cleanup(func() { _ = l.Close() })
			return "http://" + l.Addr().String()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newParts(t, endpoint(t), "OTEL_BSP_MAX_QUEUE_SIZE=5", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=2")
			w := p.worker()
			g := p.serve()
			for range 10 {
				p.post("hello", "")
				<-p.hooks
			}
			w.Signal(syscall.SIGTERM)
			g.Signal(syscall.SIGTERM)
			expect.Equal(t, "the worker's exit code", w.ExitCode(), 0)
			expect.Equal(t, "the gateway's exit code", g.ExitCode(), 0)
			w.Output.Await(t, "OpenTelemetry failed")
		})
	}
}
