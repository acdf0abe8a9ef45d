package trace_test

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"turnstile/test/expect"
)

// receiver is a real OTLP receiver over HTTP.
type receiver struct {
	*httptest.Server

	mu    sync.Mutex
	spans []*otlp.Span
	text  strings.Builder // everything that was received, and the headers
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body := io.Reader(request.Body)
		if request.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(body)
			expect.OK(t, err)
			body = unzipped
		}
		data, err := io.ReadAll(body)
		expect.OK(t, err)
		var got collector.ExportTraceServiceRequest
		expect.OK(t, proto.Unmarshal(data, &got))
		r.mu.Lock()
		defer r.mu.Unlock()
		r.text.WriteString(prototext.Format(&got))
		for _, of := range got.GetResourceSpans() {
			for _, scope := range of.GetScopeSpans() {
				r.spans = append(r.spans, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// await waits for spans with names, in any order, and returns the first of each.
func (r *receiver) await(t *testing.T, names ...string) (found []*otlp.Span) {
	t.Helper()
	for _, name := range names {
		found = append(found, r.awaitThe(t, name, func(s *otlp.Span) bool { return s.GetName() == name }))
	}
	return found
}

func (r *receiver) awaitThe(t *testing.T, what string, is func(*otlp.Span) bool) (found *otlp.Span) {
	t.Helper()
	expect.Soon(t, "the span "+what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.IndexFunc(r.spans, is)
		if i >= 0 {
			found = r.spans[i]
		}
		return i >= 0
	})
	return found
}

func (r *receiver) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func parent(s *otlp.Span) string { return id(s.GetTraceId(), s.GetParentSpanId()) }
func own(s *otlp.Span) string    { return id(s.GetTraceId(), s.GetSpanId()) }

// parents checks the one rule for all spans, when the deliveries are exported: a tool, and a delivery that names a turn,
// are below a turn. Turns, waits and other deliveries are below the request that sent their message.
func (r *receiver) parents(t *testing.T, deliveries map[string]bool) {
	t.Helper()
	r.await(t, "invoke_agent default", "POST /v1/sessions/{s}/messages")
	for delivery := range deliveries {
		r.awaitThe(t, delivery, func(s *otlp.Span) bool { return strings.Contains(attribute(s, "turnstile.delivery"), delivery) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	kind := func(s *otlp.Span) string { name, _, _ := strings.Cut(s.GetName(), " "); return name }
	byID := map[string]*otlp.Span{}
	for _, s := range r.spans {
		byID[own(s)] = s
	}
	want := map[string]string{"execute_tool": "invoke_agent", "invoke_agent": "POST", "wait": "POST"}
	for _, s := range r.spans {
		above := want[kind(s)]
		for delivery, named := range deliveries {
			if strings.Contains(attribute(s, "turnstile.delivery"), delivery) {
				above = map[bool]string{true: "invoke_agent", false: "POST"}[named]
			}
		}
		if got := kind(byID[parent(s)]); above != "" && got != above {
			t.Errorf("%s is below %q, want %s: %v", s.GetName(), got, above, s)
		}
	}
}

// id is a span as in a traceparent.
func id(trace, span []byte) string { return hex.EncodeToString(trace) + "-" + hex.EncodeToString(span) }

// attribute is an attribute's value as a text.
func attribute(s *otlp.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return strings.TrimSpace(prototext.MarshalOptions{}.Format(a.GetValue()))
		}
	}
	return ""
}
