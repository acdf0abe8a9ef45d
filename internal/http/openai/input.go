package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"turnstile"

	"turnstile/internal/http/gateway"
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/session"
)

// responseBody is the body of a new response, with the supported fields. Those of asked are ignored, or refused,
// unless clients may instruct the agent.
type responseBody struct {
	Model        string            `json:"model"`
	Input        json.RawMessage   `json:"input"`
	Conversation conversation      `json:"conversation"`
	Previous     string            `json:"previous_response_id"`
	Stream       bool              `json:"stream"`
	Background   bool              `json:"background"`
	Metadata     map[string]string `json:"metadata"`
	Store        *bool             `json:"store"`

	Instructions json.RawMessage   `json:"instructions"`
	Tools        []json.RawMessage `json:"tools"`
	Prompt       json.RawMessage   `json:"prompt"`
	Text         struct {
		Format struct {
			Type string `json:"type"`
		} `json:"format"`
	} `json:"text"`
}

// conversation is a session's key, or an object with the key as its ID.
type conversation string

func (c *conversation) UnmarshalJSON(data []byte) error {
	var named struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(data, &named); err == nil && string(data) != "null" {
		if named.ID == "" {
			return errors.New("conversation has no id")
		}
		*c = conversation(named.ID)
		return nil
	}
	var key *string
	if err := json.Unmarshal(data, &key); err != nil {
		return err
	}
	if key != nil {
		*c = conversation(*key)
	}
	return nil
}

// said reports whether a field has a value.
func said(field json.RawMessage) bool {
	return len(field) > 0 && !slices.Contains([]string{"null", `""`, "[]"}, string(field))
}

const ownTools = "The agent has its own tools: leave them out of the request. Give them to the worker's agent: by TURNSTILE_TOOLS_FILE (docs/agents/model.md), or in the configuration of the program that it runs (docs/agents/cli.md). An agent model takes them, and instructions, with TURNSTILE_INSTRUCT=true on all its workers, of a token that may instruct (docs/openai-api.md)."

// check refuses parameters that the agent could not honour. free: clients may instruct it.
func (b responseBody) check(free bool) error {
	switch {
	case said(b.Prompt):
		return refuse("prompt", "There are no stored prompts: send the input.")
	case free:
	case said(b.Instructions):
		return refuse("instructions", "The agent has its own instructions: leave them out, or say it in the input.")
	case len(b.Tools) > 0:
		return refuse("tools", ownTools)
	case b.Text.Format.Type != "" && b.Text.Format.Type != "text":
		return refuse("text.format", "The agent replies with text.")
	}
	return checkMetadata(b.Metadata)
}

// Names of a message's meta that a request's metadata cannot have.
const (
	senderMeta = "sender"      // the token's name
	nameMeta   = "sender_name" // of a message that this API has not sent
	openaiMeta = "openai"      // JSON of origin
)

func checkMetadata(metadata map[string]string) error {
	for _, name := range []string{senderMeta, nameMeta, openaiMeta} {
		if _, ok := metadata[name]; ok {
			return refuse("metadata", "metadata.%s is the gateway's.", name)
		}
	}
	return nil
}

// origin has the request's fields that a message's meta keeps for the response.
type origin struct {
	Model      string `json:"model,omitempty"`
	Background bool   `json:"background,omitempty"`
	Previous   string `json:"previous_response_id,omitempty"`
	Temporary  bool   `json:"temporary,omitempty"`
}

// message makes a message of its text and files.
func (o origin) message(text string, files []session.Attachment, metadata map[string]string, sender string) (turnstile.Message, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return turnstile.Message{}, err
	}
	meta := map[string]string{senderMeta: sender, openaiMeta: string(data)}
	for name, value := range metadata {
		meta[name] = value
	}
	return gateway.Worded(turnstile.Message{Text: text, Mode: session.ModeQueue, Meta: meta, Attachments: files}), nil
}

// ours reports whether a message was sent by this API.
func ours(m session.Message) bool { return m.Meta[openaiMeta] != "" }

// originOf returns the origin and the metadata of a stored message.
func originOf(m session.Message) (o origin, metadata map[string]string) {
	metadata = map[string]string{}
	for name, value := range m.Meta {
		switch name {
		case senderMeta:
		case openaiMeta:
			_ = json.Unmarshal([]byte(value), &o) // another sender's: the response has less
		default:
			metadata[name] = value
		}
	}
	return o, metadata
}

// part is a part of a content, in the format of either API.
type part struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"` // a string, or in chats an object with url
	File     inputFile       `json:"file"`      // of chats
	inputFile
}

// inputFile is a file, in the format of either API.
type inputFile struct {
	URL      string `json:"file_url"`
	Data     string `json:"file_data"` // a data URL
	Filename string `json:"filename"`
}

// where is the file's URL.
func (f inputFile) where() string {
	if f.Data != "" {
		return f.Data
	}
	return f.URL
}

// parseContent reads a content: a string, or parts.
func parseContent(param string, data json.RawMessage) (text string, files []session.Attachment, err error) {
	if json.Unmarshal(data, &text) == nil {
		return text, nil, nil
	}
	var parts []part
	if err := boundedjson.Unmarshal(data, &parts); err != nil {
		return "", nil, refuse(param, "A content is a string or a list of parts.")
	}
	var texts []string
	for _, p := range parts {
		switch p.Type {
		case "input_text", "output_text", "text":
			texts = append(texts, p.Text)
		case "refusal":
			texts = append(texts, p.Refusal)
		case "thinking", "redacted_thinking", "reasoning", "reasoning_text", "summary_text": // no model takes another's thoughts
		case "input_audio":
			err = refuse(param, "A part of type input_audio is not supported: send a text, or the audio as a file.")
		case "input_image", "image_url":
			var url struct {
				URL string `json:"url"`
			}
			if json.Unmarshal(p.ImageURL, &url.URL) != nil {
				_ = json.Unmarshal(p.ImageURL, &url) // without a URL it is refused below
			}
			files, err = attach(files, param, url.URL, "", "image")
		case "input_file":
			files, err = attach(files, param, p.where(), p.Filename, "file")
		case "file":
			files, err = attach(files, param, p.File.where(), p.File.Filename, "file")
		default:
			err = refuse(param, "A part of type %.100q is not supported.", p.Type)
		}
		if err != nil {
			return "", nil, err
		}
	}
	return strings.Join(texts, "\n"), files, nil
}

// statements reads the input: a string, or messages of the user. free: clients may instruct the agent, so it may
// have every role, and calls of functions with their results.
func (b responseBody) statements(free bool) (all []statement, err error) {
	data, text := b.Input, ""
	if json.Unmarshal(data, &text) == nil && len(data) > 0 {
		return []statement{{role: roleUser, text: text}}, nil
	}
	var items []struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		CallID    string          `json:"call_id"`
		Name      string          `json:"name"`
		Arguments string          `json:"arguments"`
		Input     string          `json:"input"`
		Output    json.RawMessage `json:"output"`
	}
	if err := boundedjson.Unmarshal(data, &items); err != nil || len(items) == 0 {
		return nil, refuse("input", "The input is a string or a list of items.")
	}
	for i, item := range items {
		param := fmt.Sprintf("input[%d]", i)
		s := statement{role: item.Role}
		if item.Type == "" && item.Role == "" && item.ID != "" {
			item.Type = itemReference
		}
		switch message := item.Type == "" || item.Type == "message"; {
		case message && (item.Role == roleUser || free && knownRoles[item.Role] && item.Role != roleTool):
			s.text, s.files, err = parseContent(param, item.Content)
		case free && item.Type == "function_call":
			s.role, s.calls = roleAssistant, []session.ToolUse{{Name: item.Name, CallID: item.CallID, Input: arguments(item.Arguments), Client: true}}
		case free && item.Type == "custom_tool_call":
			s.role, s.calls = roleAssistant, []session.ToolUse{{Name: item.Name, CallID: item.CallID, Input: quoted(item.Input), Client: true}}
		case free && (item.Type == "function_call_output" || item.Type == "custom_tool_call_output"):
			s.role, s.call = roleTool, item.CallID
			s.text, s.files, err = parseContent(param, item.Output)
		case free && slices.Contains([]string{"reasoning", "mcp_call", approvalRequest, approvalResponse}, item.Type):
			s.role = roleAssistant // what the agent has said, and its session knows
		case free && item.Type == itemReference:
			s.role, s.item = roleAssistant, item.ID
		case item.Type == itemReference:
			err = refuse(param, "The session has the history: send only what is new.")
		case item.Type == "compaction":
			err = refuse(param, "An item of type compaction is not supported, as only its maker can read it: send the items that it stands for.")
		case !message:
			err = refuse(param, "An item of type %.100q is not supported: the agent uses its tools itself.", item.Type)
		case item.Role == "system" || item.Role == "developer":
			err = refuse(param, "The agent has its own instructions: send messages of the user only.")
		default:
			err = refuse(param, "The session has the history: send only what is new, with the role user.")
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
