package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// content is a text, or a list of blocks.
type content []struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (c *content) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		*c = make(content, 1)
		return json.Unmarshal(data, &(*c)[0].Text)
	}
	type plain content
	return json.Unmarshal(data, (*plain)(c))
}

// anthropicCall reads a request of Anthropic's Messages API.
func anthropicCall(r *http.Request) (c call, err error) {
	var body struct {
		Model    string
		Messages []struct {
			Role    string
			Content content
		}
		Tools []struct{ Name string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return c, err
	}
	c.model = body.Model
	for _, tool := range body.Tools {
		c.tools = append(c.tools, tool.Name)
	}
	var texts []string
	for _, message := range body.Messages {
		if message.Role != "user" {
			continue
		}
		c.tool = false
		for _, block := range message.Content {
			texts = append(texts, block.Text)
			c.tool = c.tool || block.Type == "tool_result"
		}
	}
	c.texts = users(texts)
	return c, nil
}

func anthropicStream(s *sse, c call, a response) {
	usage := object{"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 1}
	s.send("message_start", object{"message": object{
		"id": s.name("msg"), "type": "message", "role": "assistant", "model": c.model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": usage,
	}})
	index := -1
	block := func(start object, deltas ...object) {
		index++
		s.send("content_block_start", object{"index": index, "content_block": start})
		for _, delta := range deltas {
			s.send("content_block_delta", object{"index": index, "delta": delta})
		}
		s.send("content_block_stop", object{"index": index})
	}
	if a.thought != "" {
		block(object{"type": "thinking", "thinking": "", "signature": ""},
			object{"type": "thinking_delta", "thinking": a.thought}, object{"type": "signature_delta", "signature": "c2ln"})
	}
	texts := inHalves(a.text)
	block(object{"type": "text", "text": ""},
		object{"type": "text_delta", "text": texts[0]}, object{"type": "text_delta", "text": texts[1]})
	stop := "end_turn"
	if a.tool {
		stop = "tool_use"
		name, input := "Bash", object{"command": a.shell(), "description": "Say something"}
		if a.call != "" {
			name, input = a.theirs(c)
		}
		pieces := inHalves(encode(input))
		block(object{"type": "tool_use", "id": s.name("toolu"), "name": name, "input": object{}},
			object{"type": "input_json_delta", "partial_json": pieces[0]}, object{"type": "input_json_delta", "partial_json": pieces[1]})
	}
	s.send("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 7}})
	s.send("message_stop", object{})
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// responsesCall reads a request of OpenAI's Responses API.
func responsesCall(r *http.Request) (c call, err error) {
	var body struct {
		Model string
		Input []struct {
			Type    string
			Role    string
			Content json.RawMessage
		}
		Tools []struct {
			Name  string
			Tools []struct{ Name string } // of a namespace
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return c, err
	}
	c.model = body.Model
	for _, tool := range body.Tools {
		c.tools = append(c.tools, tool.Name)
		for _, inner := range tool.Tools {
			c.tools = append(c.tools, tool.Name+"__"+inner.Name)
		}
	}
	var texts []string
	for _, item := range body.Input {
		c.tool = strings.HasSuffix(item.Type, "_output")
		if item.Type == "message" && item.Role == "user" {
			var blocks content
			if err := json.Unmarshal(item.Content, &blocks); err != nil {
				return c, err
			}
			for _, block := range blocks {
				texts = append(texts, block.Text)
			}
		}
	}
	c.texts = users(texts)
	return c, nil
}

func responsesStream(s *sse, c call, a response) {
	s.send("response.created", object{"response": object{"id": s.name("resp")}})
	var output []object
	item := func(item object, deltas func(at int)) {
		at := len(output)
		output = append(output, item)
		s.send("response.output_item.added", object{"output_index": at, "item": item})
		if deltas != nil {
			deltas(at)
		}
		s.send("response.output_item.done", object{"output_index": at, "item": item})
	}
	if a.thought != "" {
		item(object{"type": "reasoning", "id": s.name("rs"), "summary": []object{{"type": "summary_text", "text": a.thought}}}, func(at int) {
			s.send("response.reasoning_summary_part.added", object{"item_id": s.name("rs"), "output_index": at, "summary_index": 0})
			s.send("response.reasoning_summary_text.delta", object{"item_id": s.name("rs"), "output_index": at, "summary_index": 0, "delta": a.thought})
		})
	}
	item(object{
		"type": "message", "role": "assistant", "id": s.name("msg"), "content": []object{{"type": "output_text", "text": a.text, "annotations": []any{}}},
	}, func(at int) {
		for _, half := range inHalves(a.text) {
			s.send("response.output_text.delta", object{"item_id": s.name("msg"), "output_index": at, "content_index": 0, "delta": half})
		}
	})
	if a.tool {
		shell, call := a.shell(), object{"type": "function_call", "id": s.name("fc"), "call_id": s.name("call")}
		name, arguments := "shell", `{"command":["sh","-c","`+shell+`"]}`
		switch {
		case a.call != "":
			own, input := a.theirs(c)
			call["namespace"], name = strings.TrimSuffix(own, "__"+a.call), a.call
			arguments = encode(input)
		case slices.Contains(c.tools, "exec_command"):
			name, arguments = "exec_command", `{"cmd":"`+shell+`"}`
		case slices.Contains(c.tools, "shell_command"):
			name, arguments = "shell_command", `{"command":"`+shell+`"}`
		}
		call["name"], call["arguments"] = name, arguments
		item(call, nil)
	}
	s.send("response.completed", object{"response": object{
		"id": s.name("resp"), "status": "completed", "output": output, "usage": object{
			"input_tokens": 18, "input_tokens_details": object{"cached_tokens": 5},
			"output_tokens": 7, "output_tokens_details": object{"reasoning_tokens": 2}, "total_tokens": 25,
		},
	}})
}

// geminiCall reads a request of Gemini's generateContent API.
func geminiCall(r *http.Request) (c call, err error) {
	var body struct {
		Contents []struct {
			Role  string
			Parts []struct {
				Text             string
				FunctionResponse json.RawMessage
			}
		}
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return c, err
	}
	path := strings.TrimPrefix(r.URL.Path, "/v1beta/models/")
	model, verb, _ := strings.Cut(path, ":")
	if verb != "streamGenerateContent" {
		return c, fmt.Errorf("the scripted model has no %s", verb)
	}
	c.model = model
	for _, tool := range body.Tools {
		for _, f := range tool.FunctionDeclarations {
			c.tools = append(c.tools, f.Name)
		}
	}
	var texts []string
	for _, entry := range body.Contents {
		if entry.Role != "user" {
			continue
		}
		c.tool = false
		for _, part := range entry.Parts {
			texts = append(texts, part.Text)
			c.tool = c.tool || part.FunctionResponse != nil
		}
	}
	c.texts = users(texts)
	return c, nil
}

func geminiStream(s *sse, c call, a response) {
	part := func(finish string, parts ...object) {
		candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
		if finish != "" {
			candidate["finishReason"] = finish
		}
		s.send("", object{
			"candidates": []object{candidate}, "modelVersion": c.model, "responseId": s.name("resp"),
			"usageMetadata": object{
				"promptTokenCount": 18, "cachedContentTokenCount": 5, "candidatesTokenCount": 7, "thoughtsTokenCount": 2, "totalTokenCount": 27,
			},
		})
	}
	if a.thought != "" {
		part("", object{"text": a.thought, "thought": true})
	}
	texts := inHalves(a.text)
	part("", object{"text": texts[0]})
	if a.tool {
		part("", object{"text": texts[1]})
		name, args := "list_directory", object{"dir_path": "."}
		if a.writes {
			name, args = "write_file", object{"file_path": "written-by-the-tool", "content": "x"}
		}
		if a.call != "" {
			name, args = a.theirs(c)
		}
		part("STOP", object{"functionCall": object{"name": name, "args": args}})
		return
	}
	part("STOP", object{"text": texts[1]})
}
