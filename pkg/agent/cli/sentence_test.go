package cli

import (
	"strings"
	"testing"
)

func TestAnErrorBecomesASentence(t *testing.T) {
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
