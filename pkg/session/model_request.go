package session

import "encoding/json"

// ModelRequest is what a program that was written for OpenAI brings with a message: its functions, its
// instructions and settings for the model, and what it has said before. Only an agent whose Traits say
// that it is Instructable runs such a message. Fields without a value leave the operator's.
type ModelRequest struct {
	// Instructions come after the operator's system prompt.
	Instructions string `json:"instructions,omitempty"`

	// Functions join the agent's own tools. The turn ends where the model calls one: the program
	// carries the call out, and its next message has the result.
	Functions []Function `json:"functions,omitempty"`

	// ToolChoice and Format are those of Chat Completions: tool_choice and response_format.
	ToolChoice json.RawMessage `json:"tool_choice,omitempty"`
	Format     json.RawMessage `json:"format,omitempty"`

	Parallel    *bool    `json:"parallel_tool_calls,omitempty"` // whether one response may have several calls
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	MaxTokens   int      `json:"max_tokens,omitempty"` // of one response
	Stop        []string `json:"stop,omitempty"`

	Brought
}

// Function is a function that the program carries out when the model calls it.
type Function struct {
	Name        string          `json:"name"` // letters, digits, _ and -, at most 64
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // a JSON schema, an object
	Strict      *bool           `json:"strict,omitempty"`
}

// Brought is the part of a ModelRequest that the transcript keeps, in the entry of its message.
type Brought struct {
	// Past is what was said before the message and is not in the session's transcript.
	Past []Entry `json:"past,omitempty"`

	// Results are those of calls of functions.
	Results []CallResult `json:"results,omitempty"`
}

// CallResult is the result of a function that the model has called.
type CallResult struct {
	CallID string `json:"call_id"`
	Output string `json:"output"`

	// Attachments are pictures and files that the function returned.
	Attachments []Attachment `json:"attachments,omitempty"`
}
