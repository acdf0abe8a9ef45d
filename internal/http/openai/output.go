package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"turnstile/pkg/session"
)

// textItem is a message of the agent in a response's output.
type textItem struct {
	ID      string     `json:"id"`
	Type    string     `json:"type"`
	Role    string     `json:"role"`
	Status  string     `json:"status"`
	Content []textPart `json:"content"`
}

type textPart struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
	Logprobs    []any  `json:"logprobs"`
}

// toolItem names a tool that the agent used. Its type is that of the server's tools, so no client
// takes it for a call to make.
type toolItem struct {
	ID        string  `json:"id"`
	Type      string  `json:"type"`
	Server    string  `json:"server_label"`
	Name      string  `json:"name"`
	Arguments string  `json:"arguments"`
	Status    string  `json:"status"`
	Output    *string `json:"output"`
	Error     *string `json:"error"`
}

// serverLabel stands for the agent, on whose side its tools run.
const serverLabel = "agent"

// callItem is a call of a client's function.
type callItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Status    string `json:"status"`
}

func newCallItem(turn string, n int, status, callID, name string, input json.RawMessage) callItem {
	return callItem{itemID("fc", turn, n), "function_call", callID, name, argumentsText(input), status}
}

func newCall(callID, name string, input json.RawMessage) chatCall {
	c := chatCall{ID: callID, Type: "function"}
	c.Function.Name, c.Function.Arguments = name, argumentsText(input)
	return c
}

func newText(turn string, n int, status, text string) textItem {
	i := textItem{ID: itemID("msg", turn, n), Type: "message", Role: "assistant", Status: status, Content: []textPart{}}
	if status != inProgress {
		i.Content = append(i.Content, newPart(text))
	}
	return i
}

func newPart(text string) textPart {
	return textPart{Type: "output_text", Text: text, Annotations: []any{}, Logprobs: []any{}}
}

func newTool(turn string, n int, status, name string) toolItem {
	return toolItem{ID: itemID("mcp", turn, n), Type: "mcp_call", Server: serverLabel, Name: name, Arguments: "{}", Status: status}
}

// output returns the items of the turn that ended a message, from the transcript, or only its reply
// if the transcript has lost them.
func (a *API) output(ctx context.Context, o session.Outcome) ([]any, error) {
	entries, err := a.entries(ctx, o)
	if err != nil {
		return nil, err
	}
	turn := cmp.Or(o.Continues, o.Turn)
	items := slices.DeleteFunc(itemsOf(o.Session, turn, entries), func(item any) bool {
		_, isInput := item.(inputItem)
		_, isResult := item.(resultItem)
		return isInput || isResult
	})
	if len(items) == 0 && o.Reply != "" {
		items = append(items, newText(turnName(o.Session, turn), 0, completed, o.Reply))
	}
	return items, nil
}

// entries are those of the turn that ended a message.
func (a *API) entries(ctx context.Context, o session.Outcome) (entries []session.Entry, err error) {
	if o.Turn == "" || o.TranscriptID == "" {
		return nil, nil
	}
	of, err := a.transcript(ctx, o.Session, o.TranscriptID)
	if err != nil {
		return nil, err
	}
	return of.turn(ctx, o.Turn)
}

// itemsOf makes items of a turn's entries, with the user's. The entries of an earlier run end with an interrupted
// entry. Its interrupted text is left out: the stream has it as an incomplete item, and the reply
// begins again.
func itemsOf(sessionKey, turn string, entries []session.Entry) []any {
	cut := -1 // the end of the last earlier run
	for i, e := range entries {
		if e.Interrupted && i < len(entries)-1 {
			cut = i
		}
	}
	items, n := []any{}, 0
	for i, e := range entries {
		of, status := turn, completed
		if i <= cut {
			of += "-earlier"
		}
		of = turnName(sessionKey, of)
		switch {
		case e.Role == session.RoleUser:
			var results []session.CallResult
			if e.Brought != nil {
				results = e.Brought.Results
			}
			items = append(items, inputs(e.Turn, e.Message, e.Text, e.Attachments, results)...)
		case e.Role == session.RoleAssistant && e.Interrupted && i <= cut:
			n++
		case e.Role == session.RoleAssistant:
			if e.Interrupted {
				status = incomplete
			}
			items = append(items, newText(of, n, status, e.Text))
			n++
		case e.Tool != nil && e.Tool.Client:
			items = append(items, newCallItem(of, n, status, e.Tool.CallID, e.Tool.Name, e.Tool.Input))
			n++
		case e.Tool != nil:
			if e.Tool.Error != "" || e.Tool.Output == nil && e.Interrupted {
				status = failed
			}
			items = append(items, newTool(of, n, status, e.Tool.Name))
			n++
		}
		if i == cut {
			n = 0
		}
	}
	return items
}

// textOf is the text of all items, like the SDKs' output_text, but with blank lines between them.
func textOf(items []any) string {
	var texts []string
	for _, item := range items {
		if t, ok := item.(textItem); ok {
			for _, p := range t.Content {
				texts = append(texts, p.Text)
			}
		}
	}
	return strings.Join(texts, "\n\n")
}

// callsOf are the calls of the client's functions, as chats have them.
func callsOf(items []any) (calls []chatCall) {
	for _, item := range items {
		if c, ok := item.(callItem); ok {
			calls = append(calls, newCall(c.CallID, c.Name, arguments(c.Arguments)))
		}
	}
	return calls
}
