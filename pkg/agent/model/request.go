package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// chatRequest is the body of a request for a streamed Chat Completion.
type chatRequest struct {
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
	Content    any        `json:"content"` // a string, which may be empty, or []wirePart
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	fields     fields
}

// MarshalJSON implements json.Marshaler.
func (m wireMessage) MarshalJSON() ([]byte, error) {
	type plain wireMessage
	return m.fields.beside(plain(m))
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
	fields   fields
}

// MarshalJSON implements json.Marshaler.
func (c wireCall) MarshalJSON() ([]byte, error) {
	type plain wireCall
	return c.fields.beside(plain(c))
}

// beside writes an object and these fields after its own.
func (f fields) beside(object any) ([]byte, error) {
	data, err := encode(object)
	if len(f) == 0 || err != nil {
		return data, err
	}
	more, err := encode(f)
	return slices.Concat(data[:len(data)-1], []byte(","), more[1:]), err
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

// wire is a request in the form of Chat Completions.
func (c chat) wire(q request) chatRequest {
	w := chatRequest{
		Model: c.config.Model, Temperature: q.temperature, TopP: q.topP, Stop: q.stop,
		ResponseFormat: q.format, Stream: true, StreamOptions: streamOptions{IncludeUsage: true},
	}
	w.limit(c.base.Hostname(), q.maxTokens)
	if q.system != "" {
		w.Messages = append(w.Messages, message{role: roleSystem, text: q.system}.wire(form{}))
	}
	f := form{to: c.origin(), bare: q.Bare, shortIDs: q.ShortIDs || strictIDs(c.config.Model)}
	f.fill, f.fillCall = q.demands.fill()
	for _, m := range alternating(q.messages) {
		w.Messages = append(w.Messages, m.wire(f))
	}
	if q.toolsOver {
		return w
	}
	w.ToolChoice, w.Parallel = q.choice, q.parallel
	for _, o := range q.tools {
		w.Tools = append(w.Tools, wireTool{typeFunction, wireToolFunction{o.name, o.description, o.parameters, o.strict}})
	}
	return w
}

// limit sets the longest response, under the name that the host knows.
func (q *chatRequest) limit(host string, tokens int) {
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

// strictIDs reports whether a model is one whose templates refuse the IDs of other servers.
func strictIDs(model string) bool {
	model = strings.ToLower(model)
	return slices.ContainsFunc([]string{"mistral", "mixtral", "ministral", "magistral", "devstral", "codestral", "pixtral", "voxtral"},
		func(name string) bool { return strings.Contains(model, name) })
}

var shortID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// shortened is an ID of nine letters and digits, the same for the same ID.
func shortened(id string) string {
	if id == "" || shortID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
}

// form is what the messages of a request depend on.
type form struct {
	to             string // the server and the model
	bare           bool   // nobody gets back what it sent
	shortIDs       bool
	fill, fillCall fields
}

// wire is the message in a request's form.
func (m message) wire(f form) wireMessage {
	id := func(id string) string { return id }
	if f.shortIDs {
		id = shortened
	}
	w := wireMessage{Role: m.role, Content: m.text, ToolCallID: id(m.callID)}
	theirs := m.from == f.to && !f.bare
	for i, c := range m.calls {
		call := wireCall{ID: id(c.id), Type: typeFunction, Function: wireCallFunction{Name: fittingName(c.name), Arguments: c.args}}
		if theirs {
			call.fields = c.fields
		}
		if i == 0 {
			call.fields = call.fields.filled(f.fillCall)
		}
		w.ToolCalls = append(w.ToolCalls, call)
	}
	if theirs {
		w.fields = m.fields
	}
	if m.role == roleAssistant {
		w.fields = w.fields.filled(f.fill)
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
