package exec

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// decoded are the effects of a command's lines on a turn.
type decoded struct {
	events  []agent.Event
	result  agent.Result
	ended   int
	failure string
	bad     string
}

func decodeLines(t *testing.T, r io.Reader) (d decoded) {
	t.Helper()
	lines := eventLines{
		emit: func(e agent.Event) {
			if d.ended > 0 && e.Type != session.EventText && e.Type != session.EventThought { // text is held
				t.Errorf("behind the end: %+v", e)
			}
			if n := len(d.events) - 1; n >= 0 && d.events[n].Type == e.Type && (e.Type == session.EventText || e.Type == session.EventThought) {
				d.events[n].Text += e.Text // how pieces are merged depends on the reads
				return
			}
			d.events = append(d.events, e)
		},
		logger: slog.New(slog.DiscardHandler), onEnd: func() { d.ended++ }, steers: newSteering(nil),
		asks:  &asking{turn: &agent.Turn{}, ctx: t.Context(), w: io.Discard},
		steps: &steps{ctx: t.Context(), w: io.Discard, begun: map[string]agent.StepSpec{}},
	}
	lines.steps.turn = &agent.Turn{Host: agent.Host{Emit: func(e agent.Event) { lines.emit(e) }}}
	err := lines.read(r)
	lines.asks.open.Wait()
	lines.steps.open.Wait()
	d.result = lines.result
	if lines.failure != nil {
		d.failure = lines.failure.Error()
	}
	if err != nil {
		var at *command.LineError
		if !errors.As(err, &at) {
			t.Errorf("%v is about no line", err)
		}
		d.bad = err.Error()
		expect.Line(t, "the error", d.bad, expect.ErrorMost)
	}
	return d
}

// A command's lines mean the same however they arrive, end the turn once, and become events that can be
// stored.
func FuzzLines(f *testing.F) {
	for _, stream := range []string{
		`{"type":"text","text":"a"}` + "\n" + `{"type":"text","text":"b"}` + "\n" + `{"type":"tool_start","name":"ls","call_id":"1","input":{"a":1}}` + "\n" +
			`{"type":"tool_end","call_id":"1","output":[1]}` + "\n" + `{"type":"result","text":"done"}` + "\n" + `{"type":"text","text":"late"}`,
		`{"type":"ready","steers":true}` + "\n" + `{"type":"ask","id":"1","name":"rm"}` + "\r\n\r\n" + `{"type":"steered","id":"x"}`,
		`{"type":"tool_start","key":"k","name":"pay","input":{"a":1},"run_again":true}` + "\n" + `{"type":"tool_start","key":"h","hidden":true}` + "\n" +
			`{"type":"tool_end","key":"k","error":"busy","again":true}` + "\n" + `{"type":"tool_end","key":"h"}` + "\n" + `{"type":"tool_end","key":"k"}`,
		`{"type":"usage","usage":{"cost_usd":1e308}}` + "\n" + `{"type":"state","data":null}` + "\n" + `{"type":"error","message":"no","retryable":true}`,
		`{"type":"title","text":"\u0000\n"}` + "\n" + `{"type":"raw","name":"x","data":"\ud800"}` + "\n" + `{"type":"unheard \u202e"}`,
		"\xff\n", `{"type":"text","text":`, `[]`, `{"type":5}`, `{"TYPE":"text","Text":"x"}`, `{"type":"tool_end","call_id":"1","output":1,"error":"x"}`,
		`{"type":"` + strings.Repeat("long", 1000) + `"}`, `{"type":"steered","id":"` + strings.Repeat("long", 1000) + `"}`, `{"type":"text","text":` + strings.Repeat("1", 3000) + `}`,
	} {
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		once := decodeLines(t, strings.NewReader(stream))
		if split := decodeLines(t, iotest.OneByteReader(strings.NewReader(stream))); !reflect.DeepEqual(split, once) {
			t.Errorf("at once %+v, byte by byte %+v", once, split)
		}
		if once.ended > 1 || once.ended == 0 && (once.failure != "" || once.result.Text != "") {
			t.Errorf("it ended %d times: %+v", once.ended, once)
		}
		for _, e := range once.events {
			if _, err := json.Marshal(e); err != nil {
				t.Errorf("%+v cannot be stored: %v", e, err)
			}
			switch {
			case e.Type == session.EventToolStart && (e.Name == "" || e.CallID == ""), e.Type == session.EventToolEnd && (e.CallID == "" || (e.Error == "") == (e.Output == nil)):
				t.Errorf("%+v", e)
			}
		}
	})
}

// A command is split into words as it was quoted.
func FuzzSplitCommand(f *testing.F) {
	for _, text := range []string{`a 'b c' "d \" e" f\ g`, `''`, `"`, `'`, `\`, "a\nb", `a"b"'c'`, `"\x"`, "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, err := SplitCommand(text)
		if err != nil {
			expect.Line(t, "the error", err.Error(), expect.ErrorMost)
			return
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'"'"'`) + "'"
		}
		again, err := SplitCommand(strings.Join(quoted, " "))
		if err != nil || strings.Join(again, "\xff") != strings.Join(words, "\xff") || len(again) != len(words) {
			t.Errorf("%q is %q, and %q is %q, %v", text, words, quoted, again, err)
		}
	})
}
