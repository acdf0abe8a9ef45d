package model

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/agent"
)

// canned is a transport that gives every request the same stream.
type canned []byte

func (c canned) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	_ = req.Body.Close()
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(bytes.NewReader(c)), Request: req,
	}, nil
}

// processor is the processor time that this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A turn with a reply in 10,000 pieces of OpenAI's form, without a network.
func BenchmarkStream(b *testing.B) {
	const deltas = 10_000
	var stream bytes.Buffer
	for i := range deltas {
		fmt.Fprintf(&stream, `data: {"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion.chunk","created":1741569952,`+
			`"model":"m","service_tier":"default","system_fingerprint":"fp_44709d6fcb",`+
			`"choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"abcdef"}`+"\n\n", i)
	}
	stream.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	a, err := New(Config{URL: "http://model.test/v1", Model: "m"})
	if err != nil {
		b.Fatal(err)
	}
	a.http.Transport = canned(stream.Bytes())
	tn := turn("go")
	b.ReportAllocs()
	before := processor(b)
	for b.Loop() {
		n := 0
		if _, err := a.Run(b.Context(), emitting(tn, func(agent.Event) { n++ })); err != nil || n != deltas {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64((processor(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
