package openai

import (
	"encoding/json"
	"strings"

	"turnstile/pkg/session"
)

// The roles of statements.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

var knownRoles = map[string]bool{roleUser: true, roleAssistant: true, roleTool: true, "system": true, "developer": true}

// statement is a message of a chat, or an item of an input.
type statement struct {
	role  string // tool: text is the result of a call
	text  string
	files []session.Attachment
	calls []session.ToolUse // of the assistant's
	call  string            // of a result
	item  string            // the ID of the item that it only refers to
}

// resultsMost is how many results of a session are sent before the assistant's last call. No response has more calls.
const resultsMost = 100

// folded makes a message of statements: the words and results after the assistant's last one. What is before
// becomes the request's past if the client has the whole conversation: then it may be all, and the model goes on.
// Otherwise the session has it, except for results between calls: the agent knows which of them it has.
func folded(param string, all []statement, whole bool, asks session.ModelRequest) (q *session.ModelRequest, text string, files []session.Attachment, err error) {
	q = &asks
	last := behindAssistant(all)
	between := last // the beginning of a row of calls and results
	for between > 0 && (all[between-1].role == roleTool || all[between-1].role == roleAssistant && all[between-1].text == "") {
		between--
	}
	var texts []string
	for i, s := range all {
		switch {
		case s.role == "system" || s.role == "developer":
			q.Instructions = strings.TrimPrefix(q.Instructions+"\n\n"+s.text, "\n\n")
		case i < last && !whole && (s.role != roleTool || i < between):
		case i < last && whole:
			if q.Past, err = remembered(param, q.Past, s); err != nil {
				return nil, "", nil, err
			}
		case s.role == roleTool:
			q.Results = append(q.Results, session.CallResult{CallID: s.call, Output: s.text, Attachments: s.files})
		default:
			texts, files = append(texts, s.text), append(files, s.files...)
		}
	}
	q.Results = q.Results[max(0, len(q.Results)-resultsMost):]
	if len(texts)+len(q.Results) == 0 && (!whole || len(q.Past)+len(q.Instructions) == 0) {
		return nil, "", nil, refuse(param, "Nothing is new: there is no message of the user or result of a tool after the assistant's last message.")
	}
	return q, strings.Join(texts, "\n\n"), files, nil
}

// behindAssistant is the place behind the assistant's last statement.
func behindAssistant(all []statement) int {
	last := len(all)
	for last > 0 && all[last-1].role != roleAssistant {
		last--
	}
	return last
}

// remembered adds a statement to what was said before.
func remembered(param string, past []session.Entry, s statement) ([]session.Entry, error) {
	switch s.role {
	case roleUser:
		return append(past, session.Entry{Role: session.RoleUser, Text: s.text, Attachments: s.files}), nil
	case roleAssistant:
		if s.text != "" {
			past = append(past, session.Entry{Role: session.RoleAssistant, Text: s.text})
		}
		for _, use := range s.calls {
			if n := len(past); n > 0 && past[n-1].Tool != nil {
				use.Parallel = past[n-1].Tool.Output == nil // no result came between
			}
			past = append(past, session.Entry{Role: session.RoleTool, Tool: &use})
		}
		return past, nil
	}
	of := -1 // the first of equal calls since the user's last words
	for i := len(past) - 1; i >= 0 && (of < 0 || past[i].Role != session.RoleUser); i-- {
		if use := past[i].Tool; use != nil && use.CallID == s.call && use.Output == nil {
			of = i
		}
	}
	if of >= 0 {
		past[of].Tool.Output, past[of].Attachments = quoted(s.text), s.files
		return past, nil
	}
	return nil, refuse(param, "There is a result for the call %.100q, and no such call before it.", s.call)
}

// joined makes a message of the user's statements alone.
func joined(all []statement) (text string, files []session.Attachment) {
	texts := make([]string, 0, len(all))
	for _, s := range all {
		texts, files = append(texts, s.text), append(files, s.files...)
	}
	return strings.Join(texts, "\n\n"), files
}

// arguments are those of a call, which are a text in the API, as the transcript has them: JSON, or that text.
func arguments(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return quoted(text)
}

// quoted is a text as JSON.
func quoted(text string) json.RawMessage {
	data, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`) // encoding a text cannot fail
	}
	return data
}

// argumentsText is the opposite of arguments.
func argumentsText(input json.RawMessage) string {
	var text string
	if json.Unmarshal(input, &text) == nil {
		return text
	}
	return string(input)
}
