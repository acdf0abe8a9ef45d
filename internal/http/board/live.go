package board

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
)

// live is the running turn, according to its events.
type live struct {
	Turn     string
	Question string // the name of the open question: TURN.NUMBER
	Input    json.RawMessage
	Items    []liveItem
}

// liveItem is a piece of the reply, a tool, a note, or the start of a run that goes on.
type liveItem struct {
	Kind session.EventType // text, thought, notice, turn_started or "tool"
	Text string
	Said []words // Text
	Tool *session.ToolUse
	Ends bool          // the tool is done
	Does string        // what a tool does that is not done: it runs, or waits for a decision or its next run
	Run  session.Event // of a turn_started

	Runs int64 // a tool that is not done: for how long, ms

	began time.Time // a tool

	pieces []string // of Text, while it is made
}

// liveOf makes the running turn of its events.
func liveOf(v gateway.SessionView) live {
	l := live{Turn: v.Turn}
	if v.Question != nil {
		l.Question = v.Turn + "." + strconv.Itoa(v.Question.Number)
	}
	tools := map[string]int{} // the places of the tools that run
	for _, e := range v.Events {
		switch e.Type {
		case session.EventText, session.EventThought, session.EventNotice:
			if n := len(l.Items); n == 0 || l.Items[n-1].Kind != e.Type {
				l.Items = append(l.Items, liveItem{Kind: e.Type})
			}
			last := &l.Items[len(l.Items)-1]
			last.pieces = append(last.pieces, e.Text)
		case session.EventTurnStarted:
			if e.Continues != "" {
				l.Items = append(l.Items, liveItem{Kind: e.Type, Run: e})
			}
		case session.EventToolStart:
			tools[e.CallID] = len(l.Items)
			l.Items = append(l.Items, liveItem{Kind: "tool", Tool: &session.ToolUse{Name: e.Name, CallID: e.CallID, Input: e.Input, Client: e.Client}, began: e.At, Ends: e.Client})
		case session.EventToolEnd:
			if at, ok := tools[e.CallID]; ok {
				item := &l.Items[at]
				item.Tool.Output, item.Tool.Error, item.Ends = e.Output, e.Error, true
				if item.Tool.Took = session.Millis(e.At.Sub(item.began)); e.Turn != v.Turn {
					item.Tool.Run = e.Turn
				}
			}
		case session.EventQuestionAsked:
			l.Input = e.Input
		}
	}
	for i := range l.Items {
		item := &l.Items[i]
		item.Text, item.pieces = strings.Join(item.pieces, ""), nil
		if item.Does = "runs"; v.Question != nil || v.WaitsFor != "" || v.Phase == session.PhaseParked {
			item.Does = "waits"
		}
		if item.Tool != nil && !item.Ends && v.Since != nil {
			item.Runs = max(v.Since.Add(v.Running).Sub(item.began).Milliseconds(), 0)
		}
	}
	return l
}
