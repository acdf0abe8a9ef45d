package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"turnstile/internal/process/command"
	"turnstile/pkg/session"
)

func TestSentence(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"  plain\n": "plain",
		`{"error":{"code":400,"message":"no such model"}}`:                         "no such model",
		`{"type":"error","error":{"message":"m"}}`:                                 "m",
		`{"detail":"other"}`:                                                       `{"detail":"other"}`,
		`[API Error: {"error":{"message":"{\"error\":{\"message\":\"in it\"}}"}}]`: "[API Error: in it]",
		`unexpected status 401: {"message":"bad key"}, url: http://x`:              "unexpected status 401: bad key, url: http://x",
		"use {a} or {b}":     "use {a} or {b}",
		"\x1b[31mred\x1b[0m": "red",
		"}{":                 "}{",
	} {
		if got := sentence(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if long := sentence(strings.Repeat("ä", maxSentence)); len(long) != maxSentence+3 || !strings.HasSuffix(long, "ä...") {
		t.Errorf("%d bytes", len(long))
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	total := session.Usage{Model: "m", InputTokens: 10, CachedTokens: 4, OutputTokens: 3, CostUSD: 2}
	if got := since(total, session.Usage{InputTokens: 8, CachedTokens: 4, OutputTokens: 1, CostUSD: 0.5}); got != (session.Usage{Model: "m", InputTokens: 2, OutputTokens: 2, CostUSD: 1.5}) {
		t.Errorf("%+v", got)
	}
	if got := since(total, session.Usage{InputTokens: 11}); got != total {
		t.Errorf("a count that began anew: %+v", got)
	}
}

// It takes all there is, while nobody asks for it.
func TestPump(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	in, out := io.Pipe()
	p := newPump()
	filled := make(chan struct{})
	go func() {
		p.fill(in)
		close(filled)
	}()
	if _, err := out.Write(data); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	<-filled
	if got, err := io.ReadAll(p); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// It waits when it holds much, and loses nothing.
func TestPumpThatIsFull(t *testing.T) {
	t.Parallel()
	p := newPump()
	const size = 3 * command.MaxLine
	go p.fill(io.LimitReader(zeros{}, size))
	if n, err := io.Copy(io.Discard, p); err != nil || n != size {
		t.Errorf("%d bytes, %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
