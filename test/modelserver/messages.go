package modelserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// The Messages API takes the same script: its steps are written as blocks of that API, and its requests are
// read as those of Chat Completions, with a message for each text and result.

// Root is the base URL for clients of the Messages API: http://127.0.0.1:PORT.
func (s *Server) Root() string { return s.server.URL }

func (s *Server) message(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(hr.Body)
	if err != nil {
		return // the client is gone
	}
	r, err := readMessages(body)
	if err != nil {
		Error(http.StatusBadRequest, "invalid_request_error", err.Error()).write(w, hr, r, s.done)
		return
	}
	r.Header, r.Body = hr.Header.Clone(), body
	s.next(r).write(w, hr, r, s.done)
}

// contentBlock has the fields of all blocks.
type contentBlock struct {
	Type   string          `json:"type"`
	Text   string          `json:"text"`
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input"`
	UseID  string          `json:"tool_use_id"`
	Result []contentBlock  `json:"content"`
	Source struct {
		URL  string `json:"url"`
		Kind string `json:"media_type"`
		Data string `json:"data"`
	} `json:"source"`
}

func readMessages(body []byte) (Request, error) {
	var q struct {
		Request
		Messages []struct {
			Role    string         `json:"role"`
			Content []contentBlock `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		System []contentBlock `json:"system"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return Request{}, err
	}
	r := q.Request
	r.messages, r.Messages, r.Tools = true, nil, nil
	for _, b := range q.System {
		r.Messages = append(r.Messages, Message{Role: "system", Content: encode(b.Text)})
	}
	for i, m := range q.Messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want || len(m.Content) == 0 {
			return r, fmt.Errorf("message %d: it is the %s's and has %d blocks, want the %s's", i, m.Role, len(m.Content), want)
		}
		if m.Role == "assistant" {
			r.Messages = append(r.Messages, assistantMessage(m.Content))
			continue
		}
		for _, b := range m.Content {
			switch b.Type {
			case "tool_result":
				r.Messages = append(r.Messages, Message{Role: "tool", ToolCallID: b.UseID, Content: encode(textOf(b.Result))})
			case "image":
				p := part{Type: "image_url"}
				if p.ImageURL.URL = b.Source.URL; b.Source.Data != "" {
					p.ImageURL.URL = "data:" + b.Source.Kind + ";base64," + b.Source.Data
				}
				r.Messages = append(r.Messages, Message{Role: "user", Content: encode([]part{p})})
			default:
				r.Messages = append(r.Messages, Message{Role: "user", Content: encode(b.Text)})
			}
		}
	}
	for _, t := range q.Tools {
		var tool Tool
		tool.Type, tool.Function.Name, tool.Function.Description, tool.Function.Parameters = "function", t.Name, t.Description, t.Schema
		r.Tools = append(r.Tools, tool)
	}
	return r, nil
}

func assistantMessage(blocks []contentBlock) Message {
	m := Message{Role: "assistant", Content: encode(textOf(blocks))}
	for _, b := range blocks {
		if b.Type == "tool_use" {
			c := ToolCall{ID: b.ID, Type: "function"}
			c.Function.Name, c.Function.Arguments = b.Name, string(b.Input)
			m.ToolCalls = append(m.ToolCalls, c)
		}
	}
	return m
}

func textOf(blocks []contentBlock) (text string) {
	for _, b := range blocks {
		text += b.Text
	}
	return text
}

// messageWriter writes a stream of the Messages API.
type messageWriter struct {
	*writer
	blocks int
	open   string // the field of the block that is open; empty: there is none
}

func (m *messageWriter) event(name string, data object) {
	data["type"] = name
	m.send("event: " + name + "\ndata: " + string(encode(data)) + "\n\n")
}

// usageSoFar is the usage in the API's form: it counts cached tokens apart.
func (m *messageWriter) usageSoFar() object {
	var u struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	_ = json.Unmarshal(encode(m.usage), &u) // no usage is null
	return object{
		"input_tokens": u.Prompt - u.Details.Cached, "cache_read_input_tokens": u.Details.Cached, "cache_creation_input_tokens": 0,
		"output_tokens": u.Completion,
	}
}

func (m *messageWriter) start() {
	m.event("message_start", object{"message": object{
		"id": "msg_test", "type": "message", "role": "assistant", "model": m.asked.Model, "content": []object{}, "stop_reason": nil, "usage": m.usageSoFar(),
	}})
	m.event("ping", object{})
}

// piece writes a piece of a text, or of thoughts, which end with a signature.
func (m *messageWriter) piece(field, text string) {
	kind := map[string]string{"content": "text", "reasoning_content": "thinking"}[field]
	if m.open != field {
		m.begin(field, object{"type": kind, kind: ""})
	}
	m.delta(object{"type": kind + "_delta", kind: text})
}

func (m *messageWriter) begin(field string, block object) {
	m.end()
	m.open = field
	m.event("content_block_start", object{"index": m.blocks, "content_block": block})
}

func (m *messageWriter) delta(d object) {
	m.event("content_block_delta", object{"index": m.blocks, "delta": d})
}

func (m *messageWriter) end() {
	if m.open == "" {
		return
	}
	if m.open == "reasoning_content" {
		m.delta(object{"type": "signature_delta", "signature": fmt.Sprintf("signature of block %d", m.blocks)})
	}
	m.event("content_block_stop", object{"index": m.blocks})
	m.open = ""
	m.blocks++
}

func (m *messageWriter) call(s Step) {
	m.begin("tool", object{"type": "tool_use", "id": s.id, "name": s.name, "input": object{}})
	for _, piece := range s.pieces {
		m.delta(object{"type": "input_json_delta", "partial_json": piece})
	}
	m.end()
}

func (m *messageWriter) finish(reason string) {
	m.end()
	for _, names := range []string{"stop end_turn", "tool_calls tool_use", "length max_tokens", "content_filter refusal"} {
		if ours, theirs, _ := strings.Cut(names, " "); reason == ours {
			reason = theirs
		}
	}
	m.event("message_delta", object{"delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": m.usageSoFar()})
	m.event("message_stop", object{})
}
