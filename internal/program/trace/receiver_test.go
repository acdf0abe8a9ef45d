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
