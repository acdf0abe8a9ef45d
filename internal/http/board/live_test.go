package board

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A turn that goes on shows which tools an earlier run has ended, how long each took, and where the next run began.
func TestLiveTurnThatGoesOn(t *testing.T) {
	t.Parallel()
	v := gateway.SessionView{Turn: "b"}
	at := time.UnixMilli(1_795_227_266_000)
	for i, line := range strings.Split(`{"type":"turn_started","turn":"a","worker":"w1"}
{"type":"tool_start","turn":"a","call_id":"1","name":"charge"}
{"type":"tool_end","turn":"a","call_id":"1","output":"ok"}
{"type":"tool_start","turn":"a","call_id":"2","name":"mail"}
{"type":"turn_started","turn":"b","continues":"a","keeps":2,"worker":"w2"}
{"type":"tool_end","turn":"b","call_id":"2","error":"unknown"}
{"type":"tool_start","turn":"b","call_id":"3","name":"ship"}`, "\n") {
		e := session.Event{At: at.Add(time.Duration(i) * time.Second)}
		expect.OK(t, json.Unmarshal([]byte(line), &e))
		v.Events = append(v.Events, e)
	}
	var got []string
	for _, item := range liveOf(v).Items {
		if item.Tool == nil {
			got = append(got, fmt.Sprint(item.Run.Turn, " on ", item.Run.Worker))
			continue
		}
		got = append(got, fmt.Sprintf("%s %v %q %v", item.Tool.Name, time.Duration(item.Tool.Took), item.Tool.Run, item.Ends))
	}
	expect.List(t, "items", got, `charge 1s "a" true`, `mail 2s "" true`, "b on w2", `ship 0s "" false`)
}

// What is being written is rendered up to the last whole paragraph.
func TestParagraphs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "",
		"half a **wo":               "",
		"one\n\ntwo":                "one\n\n",
		"one\r\n \r\ntwo\n":         "one\r\n \r\n",
		"one\n\n```go\na\n\nb\n":    "one\n\n",
		"```\na\n\n~~~\n```\n\ntwo": "```\na\n\n~~~\n```\n\n",
		"~~~\n\n```\n\nb":           "",
	} {
		whole, rest := paragraphs(text)
		expect.Equal(t, "of "+text, whole, want)
		expect.Equal(t, "all of it", whole+rest, text)
	}
}
