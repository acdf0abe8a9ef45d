package agent

import (
	"fmt"
	"slices"
	"strings"

	"turnstile/pkg/session"
)

// recapTool is how much of a tool's input and output a recap repeats, in bytes.
const recapTool = 300

// Recap is the turn's history as text, for an agent that can receive it in no other way. It goes
// before the turn's text. It has the newest entries, in at most limit bytes, and is empty if there
// is no history.
func (t *Turn) Recap(limit int) string {
	var parts []string
	size, whole, who := 0, true, t.Speakers()
	for _, e := range slices.Backward(t.History) {
		part := recapEntry(e, who)
		if part == "" {
			continue
		}
		if size += len(part) + 2; size > limit {
			whole = false
			break
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Reverse(parts)
	begin := "[What was said in this conversation before, oldest first:]"
	if !whole {
		begin = "[The end of what was said in this conversation before, oldest first:]"
	}
	return begin + "\n\n" + strings.Join(parts, "\n\n") + "\n\n[End of what was said before. What follows is new.]"
}

func recapEntry(e session.Entry, who *Speakers) string {
	var text string
	switch e.Role {
	case session.RoleUser:
		if text = "User: " + e.Text; who.several {
			text = who.Said(e.Text, e.Meta)
		}
	case session.RoleAssistant:
		text = "Assistant: " + e.Text
	case session.RoleTool:
		if e.Tool == nil {
			return ""
		}
		text = fmt.Sprintf("Assistant used the tool %s(%s)", e.Tool.Name, cut(string(e.Tool.Input), recapTool))
		switch {
		case e.Tool.Error != "":
			text += ", which failed: " + cut(e.Tool.Error, recapTool)
		case e.Tool.Output != nil:
			text += ": " + cut(string(e.Tool.Output), recapTool)
		default:
			text += ", which did not finish"
		}
	case session.RoleSystem:
		text = e.Text
	}
	if e.Role != session.RoleUser {
		text = who.Quote(text)
	}
	if e.Interrupted {
		text += " [truncated here]"
	}
	return text
}

// cut shortens a text to most bytes, at the end of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
