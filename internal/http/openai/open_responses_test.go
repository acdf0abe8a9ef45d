package openai_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3/responses"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"turnstile/test/expect"
)

// openResponses is what Open Responses requires, by the part of its document.
var openResponses = sync.OnceValues(func() (parts map[string]*jsonschema.Schema, err error) {
	c := jsonschema.NewCompiler()
	parts = map[string]*jsonschema.Schema{}
	for _, part := range []string{"response", "item", "event"} {
		if parts[part], err = c.Compile("testdata/open-responses.json#/$defs/" + part); err != nil {
			return nil, err
		}
	}
	return parts, nil
})

// conforms fails the test unless a text is what Open Responses says of this part.
func conforms(t testing.TB, part, text string) {
	t.Helper()
	parts, err := openResponses()
	expect.OK(t, err)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = parts[part].Validate(value)
	}
	if err != nil {
		t.Errorf("Open Responses, %s %s: %v", part, text, err)
	}
}

// conformsBody is conforms for the body of a response to any request.
func conformsBody(t testing.TB, data []byte) {
	t.Helper()
	var body struct {
		Object string
		Data   []json.RawMessage
	}
	_ = json.Unmarshal(data, &body)
	switch {
	case body.Object == "response" && !bytes.Contains(data, []byte(`"deleted":true`)):
		conforms(t, "response", string(data))
	case body.Object == "list":
		for _, item := range body.Data {
			if !bytes.Contains(item, []byte(`"object":"model"`)) {
				conforms(t, "item", string(item))
			}
		}
	}
}

// conformingStream checks the events of a response as they are read.
type conformingStream struct {
	testing.TB
	io.ReadCloser
	line []byte
	kind string // the event's
}

func (s *conformingStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	for _, c := range p[:n] {
		if c != '\n' {
			s.line = append(s.line, c)
			continue
		}
		if kind, ok := strings.CutPrefix(string(s.line), "event: "); ok {
			s.kind = kind
		}
		if data, ok := strings.CutPrefix(string(s.line), "data: "); ok {
			conforms(s, "event", data)
			var e struct{ Type string }
			_ = json.Unmarshal([]byte(data), &e)
			expect.Equal(s, "the field event", s.kind, e.Type)
		}
		s.line = s.line[:0]
	}
	return n, err
}

// isResponseStream reports whether a response has a response's events.
func isResponseStream(request *http.Request, response *http.Response) bool {
	return strings.HasPrefix(request.URL.Path, "/v1/responses") && strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream")
}

// Streams with every end have every kind of event. Each event, as each response and item that this package's tests get,
// is what Open Responses requires: see transport.
func TestEventsOfOpenResponses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seen := map[string]bool{}
	stream := func(id string) {
		t.Helper()
		for line := range strings.Lines(rawStream(t, r.url, id, -1)) {
			if kind, ok := strings.CutPrefix(strings.TrimSpace(line), "event: "); ok {
				seen[kind] = true
			}
		}
	}
	waits, _ := background(t, r.sdk, "s", "usage=7:5 stream=3 tool=look one two")
	r.worker()
	stream(waits)
	failed, _ := background(t, r.sdk, "s", "fail=final x")
	stream(failed)
	runs := func() string {
		t.Helper()
		s := r.sdk.Responses.NewStreaming(t.Context(), say("s", "stream=2 tick=1h half a reply"))
		id := ""
		for s.Next() && s.Current().Type != "response.output_text.delta" {
			if e := s.Current(); e.Response.ID != "" {
				id = e.Response.ID
			}
		}
		expect.OK(t, s.Close())
		return id
	}
	stopped := runs()
	_, err := r.sdk.Responses.Cancel(t.Context(), stopped)
	expect.OK(t, err)
	stream(stopped)
	interrupted := runs()
	status, _ := r.post("/v1/sessions/s/messages", `{"text": "now", "mode": "interrupt"}`)
	expect.Equal(t, "interrupt", status, http.StatusAccepted)
	stream(interrupted)
	for id, want := range map[string]responses.ResponseStatus{waits: "completed", failed: "failed", stopped: "cancelled", interrupted: "incomplete"} {
		got, err := r.sdk.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
		expect.OK(t, err)
		expect.Equal(t, "status", got.Status, want)
	}
	var kinds []string
	for kind := range seen {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	expect.List(t, "events", kinds, "error", "response.completed", "response.content_part.added", "response.content_part.done", "response.created",
		"response.failed", "response.in_progress", "response.incomplete", "response.mcp_call.completed", "response.mcp_call.in_progress",
		"response.output_item.added", "response.output_item.done", "response.output_text.delta", "response.output_text.done", "response.queued")
}
