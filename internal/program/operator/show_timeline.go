package operator

import (
	"fmt"
	"strings"

	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// timeline prints what ran when in a turn with tools: its runs with their workers, and their tools with inputs
// and outputs.
func timeline(b *strings.Builder, events []session.Event) {
	tools, running := map[string]*session.Entry{}, map[*session.Entry]bool{}
	state := " runs"
	var rows []*session.Entry
	for _, e := range events {
		row := &session.Entry{At: session.Time{Time: e.At}, Turn: e.Turn}
		switch e.Type {
		case session.EventTurnStarted:
			if row.Text = "run " + e.Turn; e.Worker != "" {
				row.Text += " on " + e.Worker
			}
			if e.Continues != "" {
				row.Text += " goes on"
			}
		case session.EventToolStart:
			row.Tool = &session.ToolUse{Name: e.Name, CallID: e.CallID, Input: e.Input, Client: e.Client}
			tools[e.CallID], running[row] = row, !e.Client
		case session.EventToolEnd:
			if of := tools[e.CallID]; of != nil {
				delete(running, of)
				of.Tool.Output, of.Tool.Error, of.Tool.Took = e.Output, e.Error, session.Millis(e.At.Sub(of.At.Time))
			}
			continue
		case session.EventQuestionAsked:
			state = " waits for a decision"
			continue
		case session.EventQuestionAnswered:
			state = " runs"
			continue
		default:
			continue
		}
		rows = append(rows, row)
	}
	if len(tools) == 0 {
		return
	}
	b.WriteString("  timeline\n")
	for _, row := range rows {
		text := entryText(*row)
		if running[row] {
			text += state
		}
		inside := ""
		if row.Tool != nil {
			inside = "  "
		}
		fmt.Fprintf(b, "    %s  %s%s\n", clock(row.At.Time), inside, printable.Line(text))
	}
}
