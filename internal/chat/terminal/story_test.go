package terminal

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/session"
)

// event decodes an event, which happens ms after the first.
func event(t *testing.T, ms int64, text string) (e session.Event) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(text, err)
	}
	e.At = time.UnixMilli(1_795_227_266_000 + ms)
	return e
}

// Each step is an event with its time, its lines, and the result of Doing.
func TestEventsBecomeLines(t *testing.T) {
	t.Parallel()
	s := Story{Message: "m1", Allow: "/approve", Deny: "/deny"}
	for _, step := range []struct {
		ms    int64
		event string
		doing string
		want  []Line
	}{
		{0, `{"type":"turn_started","messages":["m1"]}`, "", nil},
		{10, `{"type":"text","text":"x"}`, "", nil},
		{10, `{"type":"thought","text":"x"}`, "", nil},
		{10, `{"type":"raw","name":"x","data":{}}`, "", nil},
		{100, `{"type":"tool_start","call_id":"1","name":"shell","input":{"command":"make test"}}`, "tool shell: make test ...", nil},
		{200, `{"type":"tool_start","call_id":"2","name":"grep","input":{"pattern":"x","path":"a b"}}`, `tool grep: pattern=x path="a b" ... (and shell)`, nil},
		{300, `{"type":"usage","usage":{"input_tokens":7}}`, `tool grep: pattern=x path="a b" ... (and shell)`, nil},
		{250, `{"type":"tool_end","call_id":"2","error":"no\nmatch\u001b[31m"}`, "tool shell: make test ...",
			[]Line{{`tool grep: pattern=x path="a b" (<0.1s) failed: no match` + "\uFFFD[31m", Trouble}}},
		{300, `{"type":"permission_asked","call_id":"3","name":"shell","text":"Cleans up","input":{"command":"rm -rf build\nls"}}`, "",
			[]Line{{`permission asked (3): shell: Cleans up ["rm -rf build\nls"]`, Alert}, {"decide with: /approve 3   or: /deny 3", Alert}}},
		{400, `{"type":"permission_answered","call_id":"3","decision":"denied"}`, "tool shell: make test ...", []Line{{Text: "permission 3: denied"}}},
		{2400, `{"type":"tool_end","call_id":"1","output":"ok"}`, "", []Line{{Text: "tool shell: make test (2.3s)"}}},
		{2500, `{"type":"tool_end","call_id":"early","name":"read"}`, "", []Line{{Text: "tool read"}}},
		{2500, `{"type":"tool_end","call_id":"early"}`, "", []Line{{Text: "tool early"}}},
		{2500, `{"type":"steered","messages":["m2"]}`, "", []Line{{Text: "the turn took in message m2"}}},
		{2500, `{"type":"steered","messages":["m1"]}`, "", []Line{{Text: "handed to the running turn"}}},
		{2500, `{"type":"tool_start","call_id":"4","name":"wait"}`, "tool wait ...", nil},
		{2500, `{"type":"turn_requeued","reason":"shutdown_timeout"}`, "",
			[]Line{{"tool wait did not end", Trouble}, {"the turn was interrupted by its worker's shutdown; its message stays", Alert}}},
		{2600, `{"type":"turn_started","messages":["m1"],"resume":"shutdown_timeout"}`, "", []Line{{Text: "the turn is resumed after its worker's shutdown"}}},
		{2600, `{"type":"permission_asked","call_id":"5","name":"go on","timeout_ms":300000}`, "",
			[]Line{{"permission asked (5): go on", Alert}, {"decide with: /approve 5   or: /deny 5   within 5m0s", Alert}}},
		{2600, `{"type":"permission_answered","call_id":"5","decision":"cancelled"}`, "", []Line{{Text: "permission 5: not asked any more"}}},
		{2600, `{"type":"usage","usage":{"output_tokens":3,"model":"m"}}`, "", nil},
		{2600, `{"type":"tool_start","call_id":"6","name":"a"}`, "tool a ...", nil},
		{2600, `{"type":"of another version","text":"x"}`, "tool a ...", nil},
		{2600, `{"type":"permission_asked","call_id":"6","name":"go on"}`, "",
			[]Line{{"permission asked (6): go on", Alert}, {"decide with: /approve 6   or: /deny 6", Alert}}},
		{2600, `{"type":"turn_requeued","reason":"parked"}`, "", []Line{{Text: "the turn waits without a worker, and goes on when this is decided"}}},
		{2600, `{"type":"turn_started","messages":["m1"]}`, "", nil}, // it begins again
		{2600, `{"type":"permission_answered","call_id":"6","decision":"allowed"}`, "", []Line{{Text: "permission 6: allowed"}}},
		{2600, `{"type":"tool_start","call_id":"6","name":"a"}`, "tool a ...", nil},
		{2600, `{"type":"permission_asked","call_id":"7","name":"go on"}`, "",
			[]Line{{"permission asked (7): go on", Alert}, {"decide with: /approve 7   or: /deny 7", Alert}}},
		{2600, `{"type":"turn_requeued","reason":"parked","keeps":1}`, "", []Line{{Text: "the turn waits without a worker, and goes on when this is decided"}}},
		{2600, `{"type":"turn_started","messages":["m1"],"continues":"x","keeps":1}`, "", nil},
		{2600, `{"type":"permission_answered","call_id":"7","decision":"allowed"}`, "tool a ...", []Line{{Text: "permission 7: allowed"}}},
		{2600, `{"type":"turn_requeued","reason":"shutdown_timeout","keeps":1}`, "tool a ...", []Line{{"the turn was interrupted by its worker's shutdown; its message stays", Alert}}},
		{2600, `{"type":"turn_started","messages":["m1"],"resume":"shutdown_timeout","continues":"t1","keeps":1}`, "tool a ...", []Line{{Text: "the turn goes on after its worker's shutdown"}}},
		{2600, `{"type":"tool_start","call_id":"6","name":"a"}`, "tool a ...", nil},
	} {
		got := s.See(event(t, step.ms, step.event))
		if !slices.Equal(got, step.want) || s.Doing() != step.doing {
			t.Errorf("%s: %+v, doing %q; want %+v, doing %q", step.event, got, s.Doing(), step.want, step.doing)
		}
	}
	lost := Story{Message: "m1", Ephemeral: true}
	if got, want := lost.See(event(t, 0, `{"type":"turn_requeued","reason":"shutdown_timeout"}`)), []Line{{"the turn was interrupted; nothing is kept", Alert}}; !slices.Equal(got, want) {
		t.Errorf("lost: %+v, want %+v", got, want)
	}
	left := s
	if got, want := left.Leave(), []Line{{Text: "tool a still runs"}}; !slices.Equal(got, want) {
		t.Errorf("left: %+v, want %+v", got, want)
	}
	again := s
	if got, want := again.End(session.Outcome{}), []Line{{"tool a did not end", Trouble}, {Text: "used: 7 tokens in, 3 out, m"}}; !slices.Equal(got, want) {
		t.Errorf("ended: %+v, want %+v", got, want)
	}
	end := session.Outcome{Usage: &session.Usage{InputTokens: 8}} // the end's usage counts
	if got, want := s.End(end), []Line{{"tool a did not end", Trouble}, {Text: "used: 8 tokens in"}}; !slices.Equal(got, want) {
		t.Errorf("ended: %+v, want %+v", got, want)
	}
	if got := (&Story{}).End(session.Outcome{Usage: &session.Usage{}}); got != nil {
		t.Errorf("without usage: %+v", got)
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for input, want := range map[string]string{
		``: "", `null`: "", `{}`: "", `[]`: "[]", `""`: "", `"a b"`: "a b", `7`: "7", `{`: "", `{"a"`: "", `nonsense`: "",
		`{"command":"make  test"}`:                        "make  test",
		`{"path":""}`:                                     "",
		`{"lines":[1, 2]}`:                                "[1,2]",
		`{"b":"x","a":1,"c":null}`:                        "b=x a=1 c=",
		`{"b":"x y","a":{"k": "v"}}`:                      `b="x y" a={"k":"v"}`,
		`{"text":"a\nb\u001b[2J"}`:                        `"a\nb\u001b[2J"`,
		`{"text":"` + "\u009b2J\u202e" + `"}`:             "\"\uFFFD2J\"",
		`{"a\u001b":"1","b":2}`:                           "a\uFFFD=1 b=2",
		`{"command":"` + long + `"}`:                      strings.Repeat("x", inputLen-1) + "…",
		`{"a":"` + long + `","b":1}`:                      "a=" + strings.Repeat("x", inputLen*3/4-1) + "… b=1",
		`{"a":{"b":"` + long + `"}}`:                      `{"b":"` + strings.Repeat("x", inputLen-7) + "…",
		`"äöüäöü` + long + `"`:                            "äöüäöü" + strings.Repeat("x", inputLen-7) + "…",
		`{"a":"1","b":"` + long + `","c":"` + long + `"}`: "a=1 b=" + strings.Repeat("x", inputLen*3/4-1) + "… c=" + strings.Repeat("x", inputLen-(6+inputLen*3/4)-4) + "…",
	} {
		if got := brief(json.RawMessage(input), inputLen); got != want {
			t.Errorf("%s: %q, want %q", input, got, want)
		}
	}
}

func TestTook(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "<0.1s", 0: "<0.1s", 99 * time.Millisecond: "<0.1s", 100 * time.Millisecond: "0.1s", 2340 * time.Millisecond: "2.3s",
		59949 * time.Millisecond: "59.9s", 59999 * time.Millisecond: "1m0s", time.Hour + 90*time.Second: "1h1m30s",
	} {
		if got := took(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestUsageLine(t *testing.T) {
	t.Parallel()
	for want, u := range map[string]session.Usage{
		"": {},
		"used: 9999 tokens in (10k cached), 12.3k out": {InputTokens: 9999, CachedTokens: 10_000, OutputTokens: 12_345},
		"used: 1M out, $0.0123, m\uFFFD":               {OutputTokens: 999_950, CostUSD: 0.01234, Model: "m\x1b"},
		"used: $1.50, context 22% full":                {CostUSD: 1.5, ContextTokens: 45_000, ContextLimit: 200_000},
	} {
		if got := usageLine(u); got != want {
			t.Errorf("%+v: %q, want %q", u, got, want)
		}
	}
}

func TestQuoted(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"agent:main:telegram:dm:42": "agent:main:telegram:dm:42", "a+b=c@d.e_f-1": "a+b=c@d.e_f-1", "s=~x": "'s=~x'",
		"": "''", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "a\nb": "'a b'", "a;\x1bb": "'a;\uFFFDb'",
	} {
		if got := Quoted(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
