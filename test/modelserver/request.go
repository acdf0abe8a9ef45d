package modelserver

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Request is one request, with the fields of its body that tests read.
type Request struct {
	Header http.Header `json:"-"`
	Body   []byte      `json:"-"`

	Model               string          `json:"model"`
	Messages            []Message       `json:"messages"`
	Tools               []Tool          `json:"tools"`
	Stream              bool            `json:"stream"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Temperature         *float64        `json:"temperature"`
	StreamOptions       json.RawMessage `json:"stream_options"`

	messages bool // of the Messages API
}

// Last is the text of the last message.
func (r Request) Last() string {
	if len(r.Messages) == 0 {
		return ""
	}
	return r.Messages[len(r.Messages)-1].Text()
}

// includeUsage reports whether a stream must end with a chunk of usage.
func (r Request) includeUsage() bool {
	var o struct {
		IncludeUsage bool `json:"include_usage"`
	}
	return json.Unmarshal(r.StreamOptions, &o) == nil && o.IncludeUsage
}

// Tool is a tool on offer to the model.
type Tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// Message is one message of a request.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"` // a string, or a list of parts
	ToolCalls  []ToolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

// ToolCall is a tool call that a request repeats.
type ToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	ImageURL struct {
		URL string `json:"url"`
	} `json:"image_url"`
}

// parts are the parts of the content; a string is one.
func (m Message) parts() []part {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return []part{{Type: "text", Text: text}}
	}
	var parts []part
	_ = json.Unmarshal(m.Content, &parts) // no parts if it is null
	return parts
}

// Text is the content's text.
func (m Message) Text() string {
	var b strings.Builder
	for _, p := range m.parts() {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Images are the URLs of the content's images.
func (m Message) Images() (urls []string) {
	for _, p := range m.parts() {
		if p.Type == "image_url" {
			urls = append(urls, p.ImageURL.URL)
		}
	}
	return urls
}
