package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// cutOff is the error of a tool of which only the start is known.
const cutOff = "the tool was started and then interrupted: it may have had its effects, so check that before you use it again"

// block is messages that are sent together or not at all: a tool call never goes without its
// result.
type block struct {
	messages []message
	tokens   int
	place    place
}

func newBlock(messages ...message) block {
	b := block{messages: messages}
	for _, m := range messages {
		b.tokens += m.tokens()
	}
	return b
}

// blocks are a transcript's messages. The calls of one reply stay one message, with the text before them, and those of
// another reply are another: some servers take one call at a time.
func blocks(history []session.Entry, who *agent.Speakers, ids *callIDs) (all []block) {
	var last place
	add := func(turn string, messages ...message) {
		if turn != last.Turn {
			last = place{Turn: turn}
		}
		last.Nth++
		b := newBlock(messages...)
		b.place = last
		all = append(all, b)
	}
	for i := 0; i < len(history); i++ {
		e := history[i]
		switch e.Role {
		case session.RoleUser:
			add(e.Turn, userMessage(who, e.Text, e.Meta, e.Attachments))
		case session.RoleAssistant, session.RoleTool:
			reply := message{role: roleAssistant, text: e.Text}
			reply.give(e.Sent)
			if e.Role == session.RoleTool {
				reply.text = ""
				i--
			}
			var results []message
			var files []session.Attachment
			for i+1 < len(history) && history[i+1].Role == session.RoleTool {
				use := history[i+1].Tool
				if use != nil && !use.Parallel && len(reply.calls) > 0 {
					break
				}
				i++
				if use != nil {
					c, result := repeated(*use, ids)
					c.fields = reply.give(history[i].Sent)
					reply.calls = append(reply.calls, c)
					results, files = append(results, result), append(files, history[i].Attachments...)
				}
			}
			if len(files) > 0 { // a result has no pictures, so they follow the results
				results = append(results, returned(files))
			}
			if reply.text != "" || len(reply.calls) > 0 {
				add(e.Turn, append([]message{reply}, results...)...)
			}
		}
	}
	return all
}

// repeated is one use of a tool as a call and its result. Another agent may have written it, so
// everything in it is made to fit.
func repeated(use session.ToolUse, ids *callIDs) (toolCall, message) {
	c := toolCall{id: ids.unique(use.CallID), name: fittingName(use.Name), args: fittingArgs(use.Input)}
	result := message{role: roleTool, callID: c.id, text: failedTool(cutOff)}
	switch {
	case use.Error != "":
		result.text = failedTool(use.Error)
	case use.Output != nil:
		result.text = plain(use.Output)
	case use.Client:
		result.text = failedTool(unsent)
	}
	return c, result
}

// failedTool is a tool's error as the model reads it.
func failedTool(text string) string { return "Error: " + text }

const maxName = 64

// fittingName makes a name one that servers accept for a tool.
func fittingName(name string) string {
	fits := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if fits == "" {
		return "tool"
	}
	return fits[:min(len(fits), maxName)]
}

// fittingArgs makes an input the arguments of a call, which are an object.
func fittingArgs(input json.RawMessage) string {
	switch {
	case len(input) == 0 || string(input) == "null":
		return "{}"
	case !json.Valid(input):
		return "{}"
	case bytes.HasPrefix(bytes.TrimSpace(input), []byte("{")):
		return string(input)
	}
	return `{"input":` + string(input) + `}`
}

// callIDs makes the IDs of a request's calls unique.
type callIDs struct {
	used map[string]bool
	next int
}

func newCallIDs() *callIDs { return &callIDs{used: map[string]bool{}} }

// maxCallID is the longest ID that all servers accept.
const maxCallID = 40

// unique is the ID itself, or a new one if it is missing, too long or used before. A new one has 9
// letters and digits, which is all that some servers allow.
func (c *callIDs) unique(id string) string {
	for id == "" || len(id) > maxCallID || c.used[id] {
		c.next++
		id = fmt.Sprintf("call%05d", c.next)
	}
	c.used[id] = true
	return id
}

// leftOut replaces the beginning of a history that would now begin with the assistant, which some
// servers refuse.
var leftOut = message{role: roleUser, text: "[The beginning of this conversation is left out here.]"}
