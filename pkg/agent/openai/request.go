package openai

import (
	"bytes"
	"encoding/json"
	"strings"
)

// request is the body of a request for a streamed Chat Completion.
type request struct {
	Model               string        `json:"model"`
	Messages            []wireMessage `json:"messages"`
	Tools               []wireTool    `json:"tools,omitempty"`
	MaxTokens           int           `json:"max_tokens,omitempty"`
	MaxCompletionTokens int           `json:"max_completion_tokens,omitempty"`
	Temperature         *float64      `json:"temperature,omitempty"`

	// Of a client's request only.
	ToolChoice     json.RawMessage `json:"tool_choice,omitempty"`
	Parallel       *bool           `json:"parallel_tool_calls,omitempty"`
	TopP           *float64        `json:"top_p,omitempty"`
	Stop           []string        `json:"stop,omitempty"`
	ResponseFormat json.RawMessage `json:"response_format,omitempty"`

	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type wireMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitempty"` // a string, which may be empty, or []wirePart
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	Reasoning  string     `json:"reasoning_content,omitempty"`
}

type wirePart struct {
	Type     string   `json:"type"`
	Text     *string  `json:"text,omitempty"`
	ImageURL *wireURL `json:"image_url,omitempty"`
}

type wireURL struct {
	URL string `json:"url"`
}

type wireCall struct {
	ID       string           `json:"id"`
	Type     string           `json:"type"`
	Function wireCallFunction `json:"function"`
}

type wireCallFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type wireTool struct {
	Type     string           `json:"type"`
	Function wireToolFunction `json:"function"`
}

type wireToolFunction struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Parameters  map[string]any `json:"parameters"`
	Strict      *bool          `json:"strict,omitempty"`
}

// The types of tools, calls and parts.
const (
	typeFunction = "function"
	typeText     = "text"
	typeImage    = "image_url"
)

// prepare fills in the part that all requests share.
func (a *Agent) prepare() {
	a.request = request{
		Model: a.config.Model, Temperature: a.config.Temperature,
		Stream: true, StreamOptions: streamOptions{IncludeUsage: true},
	}
	a.request.limit(a.base.Hostname(), a.config.MaxTokens)
	a.fixed = message{role: roleSystem, text: a.config.SystemPrompt}.tokens()
	for _, t := range a.config.Tools {
		f := wireToolFunction{Name: t.Name, Description: t.Description}
		_ = json.Unmarshal(t.schema(), &f.Parameters) // checked before
		a.request.Tools = append(a.request.Tools, wireTool{Type: typeFunction, Function: f})
		a.fixed += messageTokens + (len(t.Name)+len(t.Description)+len(t.schema()))/bytesPerToken
	}
}

// limit sets the longest response, under the name that the host knows.
func (q *request) limit(host string, tokens int) {
	if newerLimit(host) {
		q.MaxCompletionTokens = tokens
	} else {
		q.MaxTokens = tokens
	}
}

// newerLimit reports whether a host is known to accept max_completion_tokens.
func newerLimit(host string) bool {
	for _, of := range []string{"openai.com", "azure.com"} {
		if host == of || strings.HasSuffix(host, "."+of) {
			return true
		}
	}
	return false
}

// wire is the message in a request's form.
func (m message) wire() wireMessage {
	w := wireMessage{Role: m.role, Content: m.text, ToolCallID: m.callID}
	if m.role == roleAssistant {
		w.Reasoning = m.reasoning
		if m.text == "" && len(m.calls) > 0 {
			w.Content = nil
		}
		for _, c := range m.calls {
			w.ToolCalls = append(w.ToolCalls, wireCall{
				ID: c.id, Type: typeFunction, Function: wireCallFunction{Name: fittingName(c.name), Arguments: c.args},
			})
		}
	}
	if len(m.images) > 0 {
		parts := []wirePart{{Type: typeText, Text: &m.text}}
		for _, i := range m.images {
			parts = append(parts, wirePart{Type: typeImage, ImageURL: &wireURL{i.url}})
		}
		w.Content = parts
	}
	return w
}

// encode writes JSON without escapes for HTML, because models read it.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
