package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"turnstile/internal/process/command"
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/session"
)

var codex = program{
	env: []string{"OPENAI_*", "CODEX_*"},
	argv: func(command []string, model, resume string) []string {
		argv := append([]string{}, command...)
		// Users know the command as "codex exec --sandbox ...". The adapter adds "exec" only if it
		// is missing.
		if !slices.Contains(command[1:], "exec") && !slices.Contains(command[1:], "e") {
			argv = append(argv, "exec")
		}
		// A workspace need not be a git repository.
		argv = append(argv, "--json", "--skip-git-repo-check")
		if model != "" {
			argv = append(argv, "--model="+model)
		}
		if resume != "" {
			argv = append(argv, "resume", resume)
		}
		return append(argv, "-") // the prompt is on stdin
	},
	servers: codexServers,
	decoder: func(s *stream) decoder {
		return &codexLines{
			stream: s, started: map[string]bool{}, running: map[string]string{}, rollout: newRollout(s.spec, s.state.Session),
		}
	},
	forgotten: []string{"no rollout found", "thread not found", "No saved session found", "session not found"},
	record: func(spec command.Spec, session string) (root, path string) {
		r := newRollout(spec, session)
		return r.root, r.path()
	},
	read: func(line []byte, to *recorded) (prompt bool) {
		var l struct {
			Type    string `json:"type"`
			Payload struct {
				Type    string          `json:"type"`
				Role    string          `json:"role"`
				Content json.RawMessage `json:"content"`
			} `json:"payload"`
		}
		valid := json.Unmarshal(line, &l) == nil
		to.compacted = l.Type == "compacted"
		if !valid || l.Type != "response_item" || l.Payload.Type != "message" || l.Payload.Role != "user" {
			return false
		}
		to.prompt = plain(l.Payload.Content)
		return true
	},
}

// codexLines decodes the lines of codex exec --json. Its items are not streamed.
type codexLines struct {
	*stream
	started  map[string]bool   // tools
	running  map[string]string // the commands among them that have not ended
	rollout  *rollout
	messages int
}

type codexItem struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Status    string          `json:"status"`
	Text      string          `json:"text"`
	Message   string          `json:"message"`
	Command   string          `json:"command"`
	Output    string          `json:"aggregated_output"`
	ExitCode  *int            `json:"exit_code"`
	Changes   json.RawMessage `json:"changes"`
	Query     string          `json:"query"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
	Error     *codexError     `json:"error"`
}

type codexError struct {
	Message string `json:"message"`
}

func (c *codexLines) line(of string, data []byte) error {
	var l struct {
		ThreadID string          `json:"thread_id"`
		Item     json.RawMessage `json:"item"`
		Message  string          `json:"message"`
		Error    codexError      `json:"error"`
		Usage    *struct {
			Input  int64 `json:"input_tokens"`
			Cached int64 `json:"cached_input_tokens"`
			Output int64 `json:"output_tokens"`
		} `json:"usage"`
	}
	if err := boundedjson.Unmarshal(data, &l); err != nil {
		return err
	}
	switch of {
	case "thread.started":
		c.rollout.of(l.ThreadID)
		return c.session(l.ThreadID)
	case "turn.started":
	case "item.started", "item.updated", "item.completed":
		var item codexItem
		if err := boundedjson.Unmarshal(l.Item, &item); err != nil {
			return err
		}
		return c.item(of, item, data)
	case "turn.completed":
		c.emitRest()
		c.end("")
		if l.Usage == nil {
			return nil
		}
		// It counts over the whole thread, with earlier turns.
		total := session.Usage{InputTokens: l.Usage.Input, CachedTokens: l.Usage.Cached, OutputTokens: l.Usage.Output}
		var before session.Usage
		if c.state.Total != nil {
			before = *c.state.Total
		}
		used := since(total, before)
		used.Model = c.model
		c.usage(used)
		c.state.Total = &total
		return c.storeState()
	case "turn.failed":
		c.emitRest()
		c.end(cmp.Or(l.Error.Message, c.trouble, "it gave no reason"))
	case "error": // it may try again
		c.trouble = l.Message
		c.raw(of, data)
	default:
		c.raw(of, data)
	}
	return nil
}

func (c *codexLines) item(of string, i codexItem, data []byte) error {
	done := of == "item.completed"
	switch i.Type {
	case "agent_message":
		if done {
			c.messages++
			c.emitMissing(c.rollout.missing(c.messages))
			c.paragraph()
			c.text(i.Text)
		}
		return nil
	case "reasoning":
		if done {
			c.thought(i.Text)
		}
		return nil
	case "error": // the turn continues
		c.notice(i.Message)
		return nil
	}
	name, input := i.tool()
	if name == "" {
		c.raw(of+"/"+i.Type, data)
		if !done || !i.failed() {
			return nil
		}
		name = i.Type // whatever it is, the user learns that it failed
	}
	if !c.started[i.ID] {
		c.started[i.ID] = true
		if err := c.toolStart(i.ID, name, input); err != nil {
			return err
		}
	}
	if !done {
		c.running[i.ID] = i.Command
		return nil
	}
	delete(c.running, i.ID)
	output, failure := i.result()
	return c.toolEnd(i.ID, output, failure)
}

// emitMissing emits the tools that the stream left out.
func (c *codexLines) emitMissing(calls []codexCall) {
	for _, call := range calls {
		if c.runs(call) {
			continue
		}
		name, input := call.tool()
		_, failure := call.failure.result()
		if c.toolStart(call.id, name, input) == nil {
			_ = c.toolEnd(call.id, nil, failure)
		}
	}
}

// emitRest does so at the turn's end. A tool after the text would make the text no reply, so it
// becomes a notice.
func (c *codexLines) emitRest() {
	calls := c.rollout.missing(0)
	if !c.open {
		c.emitMissing(calls)
		return
	}
	for _, call := range calls {
		if !c.runs(call) {
			c.notice(call.String())
		}
	}
}

// runs reports whether the stream has reported the start of a call, and will report its end.
func (c *codexLines) runs(call codexCall) bool {
	for _, command := range c.running {
		if command != "" && call.runs(command) {
			return true
		}
	}
	return false
}

// tool is the name and the input of an item that is a use of a tool.
func (i codexItem) tool() (name string, input json.RawMessage) {
	switch i.Type {
	case "command_execution":
		return i.Type, encoded(map[string]string{"command": i.Command})
	case "file_change":
		return i.Type, encoded(map[string]any{"changes": i.Changes})
	case "web_search":
		return i.Type, encoded(map[string]string{"query": i.Query})
	case "mcp_tool_call":
		return i.Server + "." + i.Tool, i.Arguments
	}
	return "", nil
}

func (i codexItem) failed() bool {
	return i.Status == "failed" || i.Status == "declined" || i.Error != nil
}

func (i codexItem) result() (output json.RawMessage, failure string) {
	if i.failed() {
		var said string
		switch {
		case i.Error != nil:
			said = i.Error.Message
		case i.ExitCode != nil:
			said = fmt.Sprintf("exit code %d: %s", *i.ExitCode, i.Output)
		case i.Type == "mcp_tool_call":
			var result struct {
				Content json.RawMessage `json:"content"`
			}
			if json.Unmarshal(i.Result, &result) == nil {
				said = plain(result.Content)
			}
		}
		return nil, cmp.Or(said, i.Output, "it was "+cmp.Or(i.Status, "not done"))
	}
	switch i.Type {
	case "command_execution":
		return encoded(i.Output), ""
	case "mcp_tool_call":
		return i.Result, ""
	}
	return nil, ""
}

// encoded encodes values that always can be.
func encoded(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}
