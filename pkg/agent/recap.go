package agent

import (
	"fmt"
	"slices"
	"strings"

	"turnstile/internal/text/frame"
	"turnstile/pkg/session"
)

// recapTool is how much of a tool's input and output a recap repeats, in bytes.
const recapTool = 300

// mostLost is how many tools GoOn repeats.
const mostLost = 20

// Recap is the turn's history as text, for an agent that can receive it in no other way. It goes
// before the turn's text. It has the newest entries, in at most limit bytes, and is empty if there
// is no history.
func (t *Turn) Recap(limit int) string {
	return t.recap(t.History, limit, "[What was said in this conversation before, oldest first:]")
}

// RecapEnded is Recap for an agent whose own session goes on: of the last turns, those that failed or were stopped. The
// session may have their words, and does not know how they ended.
func (t *Turn) RecapEnded(limit int) string {
	from := len(t.History)
	for from > 0 && t.History[from-1].Ended != nil {
		from -= len(lastTurn(t.History[:from]))
	}
	return t.recap(t.History[from:], limit, "[The end of what was said in this conversation before, which you may have in part:]")
}

// recap is a history as text. begin is the line before it if all of it fits.
func (t *Turn) recap(history []session.Entry, limit int, begin string) string {
	var parts []string
	size, whole, who := 0, true, t.Speakers()
	for _, e := range slices.Backward(history) {
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
	if !whole {
		begin = "[The end of what was said in this conversation before, oldest first:]"
	}
	return begin + "\n\n" + strings.Join(parts, "\n\n") + "\n\n[End of what was said before. What follows is new.]"
}

// GoOn is the text for an agent whose own session has this turn's text already, from an interrupted run of the
// turn: it asks the agent to go on. Use it in place of Text and Recap; it includes the note. It repeats the
// turn's tools whose ends are unknown, and the newest ones whose ends the agent's session lacks: has reports whether
// it has the end of the tool with a CallID. nil: it has all that are known.
func (t *Turn) GoOn(has func(callID string) bool) string {
	// Programs note an interruption as the user's wish, and then their models do not go on.
	said := "No new message follows. Your turn about the user's last message above was interrupted, and not by the user, whatever is noted there. " +
		"You have that message, and what you did for it: go on where it stopped, and do not repeat what is done. If all is done, send the user your final reply again."
	lost, all := []string{}, has == nil
	for _, e := range slices.Backward(t.History) {
		switch u := e.Tool; {
		case u == nil:
		case has != nil && has(u.CallID):
			all = true // and those before it
		case all && (u.Output != nil || u.Error != ""):
		default:
			e.Interrupted = false
			lost = append(lost, recapEntry(e, t.Speakers()))
		}
		if e.Role == session.RoleUser || len(lost) == mostLost {
			break
		}
	}
	if len(lost) > 0 {
		slices.Reverse(lost)
		said += " You may lack these tools' ends. One that did not finish may have had effects: check before you use it again.\n\n" + strings.Join(lost, "\n")
	}
	if said = "[" + said + "]"; t.Note != "" {
		said = t.Note + "\n\n" + said
	}
	return said
}

func recapEntry(e session.Entry, who *Speakers) string {
	var text string
	switch e.Role {
	case session.RoleUser:
		if text = "User: " + frame.All(e.Text); who.several {
			text = who.Said(frame.All(e.Text), e.Meta)
		}
	case session.RoleAssistant:
		text = "Assistant: " + frame.All(e.Text)
	case session.RoleTool:
		if e.Tool == nil {
			return ""
		}
		text = fmt.Sprintf("Assistant used the tool %s(%s)", e.Tool.Name, frame.All(cut(string(e.Tool.Input), recapTool)))
		switch {
		case e.Tool.Error != "":
			text += ", which failed: " + frame.All(cut(e.Tool.Error, recapTool))
		case e.Tool.Output != nil:
			text += ": " + frame.All(cut(string(e.Tool.Output), recapTool))
		case e.Tool.Client:
			text += ", whose result a program sends"
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
