package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

func TestNames(t *testing.T) {
	t.Parallel()
	good := []string{"a", "agent:main:telegram:dm:42", "A.b_c@d+e=f~g-h", "0", strings.Repeat("x", 128)}
	bad := []string{"", ":a", "-a", "a b", "a/b", "a#b", "a?b", "a%b", "a{b}", "ä", "a\n", strings.Repeat("x", 257)}
	for _, name := range good {
		if err := errors.Join(session.ValidateKey(name), session.ValidateID(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range bad {
		for what, err := range map[string]error{"key": session.ValidateKey(name), "id": session.ValidateID(name)} {
			if !errors.Is(err, session.ErrInvalid) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
	if err := session.ValidateID(strings.Repeat("x", 129)); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("an id of 129 characters: %v", err)
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	full := wire.Message{
		Text: "<b>hello</b> & ✓", Mode: session.ModeInterrupt, Meta: map[string]string{"from": "ada"},
		Attachments: []session.Attachment{{Name: "a.png", Mime: "image/png", URL: "https://example.com/a.png", Size: 3}},
		ExpiresIn:   wire.Duration(90 * time.Second),
	}
	data, err := full.Payload()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"text":"<b>hello</b> & ✓"`) || !strings.Contains(string(data), `"expires_in":"1m30s"`) {
		t.Errorf("payload %s", data)
	}
	got, err := wire.Decode(data, session.Limits{})
	if err != nil || !reflect.DeepEqual(got, full) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := wire.Decode([]byte(`{"v":1,"text":"a","later":true}`), session.Limits{}); err != nil {
		t.Errorf("a newer sender's field: %v", err)
	}
	// A mode that only one of the two programs knows does not stop a message either.
	if got, err := wire.Decode([]byte(`{"v":1,"text":"a","mode":"later"}`), session.Limits{}); err != nil || got.Mode != "" {
		t.Errorf("a newer sender's mode: %+v, %v", got, err)
	}
	for mode, kept := range map[session.Mode]bool{
		session.ModeQueue: true, session.ModeReject: true, session.ModeCollect: false, session.ModeSteer: false, session.ModeRollback: false,
	} {
		data, err := wire.Message{Text: "a", Mode: mode}.Payload()
		if err != nil || strings.Contains(string(data), `"mode"`) != kept {
			t.Errorf("mode %s in a payload: %s, %v", mode, data, err)
		}
	}
	for _, bad := range []string{
		``, `x`, `[]`, `{"v":2,"text":"a"}`, `{"text":"a"}`, `{"v":1}`, `{"v":1,"text":" \n"}`, `{"v":1,"text":1}`,
		`{"v":1,"text":"a","mode":1}`, `{"v":1,"text":"a","expires_in":"-1s"}`, `{"v":1,"text":"a","expires_in":"soon"}`,
		`{"v":1,"text":"a","attachments":[{"name":"x"}]}`, `{"v":1,"text":"a","attachments":[{"name":"x","url":"u","path":"p"}]}`,
		`{"v":1,"text":"a","attachments":[{"url":"u"}]}`, `{"v":1,"text":"a","attachments":[{"name":"x","url":"u","size":-1}]}`,
		`{"v":1,"text":"` + strings.Repeat("x", 2<<20) + `"}`,
	} {
		if _, err := wire.Decode([]byte(bad), session.Limits{}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%.60s: %v", bad, err)
		}
	}
	if err := (wire.Message{Text: "a\xff"}).Validate(session.Limits{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("text that is not UTF-8: %v", err)
	}
}

// The words of docs/events.md. Others stay as they are.
func TestDecisionsInEvents(t *testing.T) {
	t.Parallel()
	for d, want := range map[session.Decision]string{
		session.Allow: "allowed", session.Always: "allowed", session.Deny: "denied", session.Cancelled: "cancelled", "later": "later",
	} {
		data, err := json.Marshal(d)
		var back session.Decision
		if err != nil || string(data) != `"`+want+`"` || json.Unmarshal(data, &back) != nil || back.Allowed() != d.Allowed() {
			t.Errorf("%s: %s, %v; read again it is %s", d, data, err, back)
		}
	}
	if json.Unmarshal([]byte("1"), new(session.Decision)) == nil {
		t.Error("a number is a decision")
	}
}

// A request for the model is checked where it enters.
func TestRequests(t *testing.T) {
	t.Parallel()
	two := 2.5
	function := func(name, parameters string) session.ModelRequest {
		return session.ModelRequest{Functions: []session.Function{{Name: name, Parameters: json.RawMessage(parameters)}}}
	}
	for want, r := range map[string]session.ModelRequest{
		"":                       function("pick_1", `{"type":"object"}`),
		"the function's name":    function("pick one", ""),
		"no JSON schema object":  function("pick", "[]"),
		"two functions":          {Functions: []session.Function{{Name: "a"}, {Name: "a"}}},
		"at most 128":            {Functions: make([]session.Function, 129)},
		"texts of stop":          {Stop: make([]string, 5)},
		"between 0 and 2":        {Temperature: &two},
		"top_p":                  {TopP: &two},
		"negative":               {MaxTokens: -1},
		"no call_id":             {Brought: session.Brought{Results: make([]session.CallResult, 1)}},
		"neither a user's":       {Brought: session.Brought{Past: []session.Entry{{Role: session.RoleSystem}}}},
		"entry 1 of what was sa": {Brought: session.Brought{Past: []session.Entry{{Role: session.RoleUser, Brought: &session.Brought{}}}}},
	} {
		switch err := (wire.Message{Text: "x", Request: &r}).Validate(session.Limits{}); {
		case want == "" && err != nil, want != "" && (!errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v", want, err)
		}
	}
	for what, r := range map[string]session.ModelRequest{
		"a result": {Brought: session.Brought{Results: []session.CallResult{{CallID: "c"}}}}, "instructions": {Instructions: "x"},
		"what was said": {Brought: session.Brought{Past: []session.Entry{{Role: session.RoleAssistant, Text: "x"}}}},
	} {
		if err := (wire.Message{Request: &r}).Validate(session.Limits{}); err != nil {
			t.Errorf("%s without a text: %v", what, err)
		}
	}
}

func TestTraceParent(t *testing.T) {
	t.Parallel()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for value, want := range map[string]string{
		"00-" + trace:                  "00-" + trace,
		"01-" + trace:                  "00-" + trace,
		"cc-" + trace + "-what-is-new": "00-" + trace,
		"":                             "",
		"00":                           "",
		"00-" + trace[:51]:             "",
		"00-" + trace + "-x":           "",
		"01-" + trace + "x":            "",
		"ff-" + trace:                  "",
		"00-" + strings.ToUpper(trace): "",
		"0x-" + trace:                  "",
		"00_" + trace:                  "",
		"00-" + strings.Replace(trace, "-", "_", 1):          "",
		"00-" + strings.Replace(trace, "b", "g", 1):          "",
		"00-" + trace[:51] + "\n":                            "",
		"00-" + strings.Repeat("0", 32) + trace[32:]:         "",
		"00-" + trace[:33] + strings.Repeat("0", 16) + "-01": "",
		" 00-" + trace: "",
	} {
		if got := wire.TraceParent(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
