package openai

import (
	"bytes"
	"encoding/json"
	"slices"

	"turnstile/internal/http/gateway"
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/session"
)

// asked is what a request asks of the model, in the format of either API.
type asked struct {
	Instructions string          `json:"instructions"`
	Tools        []tool          `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	Parallel     *bool           `json:"parallel_tool_calls"`
	Temperature  *float64        `json:"temperature"`
	TopP         *float64        `json:"top_p"`
	Stop         stops           `json:"stop"`

	MaxOutput     int `json:"max_output_tokens"`
	MaxTokens     int `json:"max_tokens"`
	MaxCompletion int `json:"max_completion_tokens"`

	Text struct {
		Format *responseFormat `json:"format"`
	} `json:"text"`
	Format json.RawMessage `json:"response_format"`
}

// tool is a function. Chats have it in an object of its own.
type tool struct {
	Type string `json:"type"`
	function
	Function *function `json:"function,omitempty"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
}

// stops is a text or a list of texts.
type stops []string

func (s *stops) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		if *s = nil; one != "" {
			*s = stops{one}
		}
		return nil
	}
	err := json.Unmarshal(data, (*[]string)(s))
	if len(*s) == 0 {
		*s = nil
	}
	return err
}

// responseFormat is Responses' form of a format; chats have the schema in an object of its own.
type responseFormat struct {
	Type        string          `json:"type,omitempty"`
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

type chatFormat struct {
	Type   string          `json:"type"`
	Schema *responseFormat `json:"json_schema,omitempty"` // without a type
}

// askedNames are ends of the names of asked's fields, as requests write them.
var askedNames = [][]byte{[]byte(`instructions"`), []byte(`tools"`), []byte(`tool_choice"`), []byte(`tool_calls"`), []byte(`temperature"`), []byte(`top_p"`), []byte(`"stop"`),
	[]byte(`_tokens"`), []byte(`format"`)}

// parseAsked reads what a request asks of the model. Most large requests, with pictures, ask for nothing: they
// are not decoded again.
func parseAsked(data []byte) (q session.ModelRequest, err error) {
	if !slices.ContainsFunc(askedNames, func(name []byte) bool { return bytes.Contains(data, name) }) {
		return q, nil
	}
	var a asked
	if err := boundedjson.Unmarshal(data, &a); err != nil {
		return q, gateway.BadJSON(err)
	}
	q = session.ModelRequest{
		Instructions: a.Instructions, Parallel: a.Parallel, Temperature: a.Temperature, TopP: a.TopP, Stop: a.Stop,
		MaxTokens: max(a.MaxOutput, a.MaxTokens, a.MaxCompletion),
	}
	for _, t := range a.Tools {
		if t.Type != "function" {
			return q, refuse("tools", "A tool of type %.100q is not supported: the client's tools are functions, and the agent has its own.", t.Type)
		}
		f := t.function
		if t.Function != nil {
			f = *t.Function
		}
		if string(f.Parameters) == "null" {
			f.Parameters = nil
		}
		q.Functions = append(q.Functions, session.Function(f))
	}
	if q.ToolChoice, err = parseChoice(a.ToolChoice); err != nil {
		return q, err
	}
	q.Format, err = parseFormat(a.Format, a.Text.Format)
	return q, err
}

// parseChoice returns a tool_choice as chats have it, nil for the default.
func parseChoice(data json.RawMessage) (json.RawMessage, error) {
	var mode string
	var named struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch {
	case !said(data):
		return nil, nil
	case json.Unmarshal(data, &mode) == nil && slices.Contains([]string{"none", "auto", "required"}, mode):
		if mode == "auto" {
			return nil, nil
		}
		return data, nil
	case json.Unmarshal(data, &named) == nil && named.Type == "function" && named.Name+named.Function.Name != "":
		return json.Marshal(object{"type": "function", "function": object{"name": named.Name + named.Function.Name}})
	}
	return nil, refuse("tool_choice", "tool_choice is none, auto, required, or a function.")
}

// parseFormat returns a format as chats have it, nil for text.
func parseFormat(chats json.RawMessage, responses *responseFormat) (_ json.RawMessage, err error) {
	f := chatFormat{}
	if responses != nil {
		if f.Type = responses.Type; f.Type == "json_schema" {
			schema := *responses
			schema.Type, f.Schema = "", &schema
		}
		if chats, err = json.Marshal(f); err != nil {
			return nil, gateway.BadJSON(err)
		}
	}
	if !said(chats) {
		return nil, nil
	}
	switch err := json.Unmarshal(chats, &f); {
	case err != nil:
		return nil, gateway.BadJSON(err)
	case f.Type == "" || f.Type == "text":
		return nil, nil
	case f.Type == "json_object", f.Type == "json_schema" && f.Schema != nil:
		return chats, nil
	}
	return nil, refuse("format", "A format is text, json_object or json_schema.")
}

// request is what a request has asked of the model.
type request session.ModelRequest

// echo sets the fields of a response that repeat it.
func (q request) echo(r *response) {
	if q.Instructions != "" {
		r.Instructions = &q.Instructions
	}
	if q.MaxTokens > 0 {
		most := int64(q.MaxTokens)
		r.MaxTokens = &most
	}
	for field, value := range map[*float64]*float64{&r.Temperature: q.Temperature, &r.TopP: q.TopP} {
		if value != nil {
			*field = *value
		}
	}
	if q.Parallel != nil {
		r.Parallel = *q.Parallel
	}
	for _, f := range q.Functions {
		r.Tools, r.ToolChoice = append(r.Tools, tool{Type: "function", function: function(f)}), "auto"
	}
	var named tool
	var mode string
	switch {
	case json.Unmarshal(q.ToolChoice, &mode) == nil:
		r.ToolChoice = mode
	case json.Unmarshal(q.ToolChoice, &named) == nil && named.Function != nil:
		r.ToolChoice = object{"type": "function", "name": named.Function.Name}
	}
	var f chatFormat
	if json.Unmarshal(q.Format, &f) == nil {
		format := object{"type": f.Type}
		if s := f.Schema; s != nil {
			format["name"], format["schema"], format["strict"], format["description"] = s.Name, s.Schema, s.Strict != nil && *s.Strict, nil
			if s.Description != "" {
				format["description"] = s.Description
			}
		}
		r.Text = map[string]any{"format": format}
	}
}
