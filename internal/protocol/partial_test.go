package protocol

import (
	"reflect"
	"strings"
	"testing"

	"turnstile/pkg/session"
)

func TestPartialRoundTrip(t *testing.T) {
	t.Parallel()
	p := Partial{Fence: 1795227266293, Turn: "7c4a8d09-1795227266293", Messages: []string{"m1", "m2"}, Entries: []session.Entry{
		{Role: session.RoleUser, Text: "a < b", Message: "m1"},
		{Role: session.RoleTool, Tool: &session.ToolUse{Name: "search", CallID: "1"}, Interrupted: true},
	}}
	text, err := p.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, ok := DecodePartial(text)
	if !ok || !reflect.DeepEqual(got, p) {
		t.Errorf("got %+v, %v", got, ok)
	}
	// Each entry is a separate text, ready for the transcript.
	if !strings.Contains(text, `"entries":["{\"role\":\"user\",\"text\":\"a < b\"`) {
		t.Errorf("stored as %s", text)
	}
}

func TestDecodePartialRejectsMalformedOnes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "x", "[]", `{"v":1}`, `{"v":2,"messages":["m"],"entries":["{}"]}`, `{"v":1,"messages":[],"entries":["{}"]}`,
		`{"v":1,"messages":["m"],"entries":[]}`, `{"v":1,"messages":["m"],"entries":[{}]}`,
	} {
		if p, ok := DecodePartial(text); ok {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
}
