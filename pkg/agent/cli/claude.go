package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"turnstile/internal/mcp"
	"turnstile/internal/process/command"
	"turnstile/internal/text/boundedjson"
	"turnstile/internal/text/halves"
	"turnstile/pkg/session"
)

var claude = program{
	env: []string{"ANTHROPIC_*", "CLAUDE_*"},
	argv: func(command []string, model, resume string) []string {
		argv := append(append([]string{}, command...),
			"-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages")
		if model != "" {
			argv = append(argv, "--model="+model)
		}
		if resume != "" {
			argv = append(argv, "--resume="+resume)
		}
		return argv
	},
	servers: func(f *mcp.File) (options, env []string, err error) {
		for _, s := range f.Servers {
			if s.URL != "" && s.Type != "http" && s.Type != "sse" {
				return nil, nil, fmt.Errorf(`server %s: Claude Code ignores a url without a type: add "type": "http"`, s.Name)
			}
		}
		return []string{"--mcp-config", f.Path}, f.Variables(), nil // it replaces the references itself
	},
	often: "stream_event",
	decoder: func(s *stream) decoder {
		return &claudeLines{stream: s, streamed: map[string]bool{}, ends: map[string]bool{}}
	},
	forgotten: []string{"No conversation found with session ID", "does not match any session title"},
	record: func(spec command.Spec, session string) (root, path string) {
		home, root := homeOf(spec, "CLAUDE_CONFIG_DIR", ".claude")
		dir, err := filepath.Abs(spec.Dir)
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if home == "" || err != nil {
			return "", ""
		}
		return root, filepath.Join(home, "projects", notInName.ReplaceAllString(dir, "-"), session+".jsonl")
	},
	read: func(line []byte, to *recorded) (prompt bool) {
		var l struct {
			claudeHead

			Type      string `json:"type"`
			Meta      bool   `json:"isMeta"`
			Sidechain bool   `json:"isSidechain"` // a helper of the agent
		}
		if json.Unmarshal(line, &l) != nil || l.Meta {
			return false
		}
		to.compacted = l.Subtype == "compact_boundary"
		if l.Type == "user" && !l.Sidechain && json.Unmarshal(l.Message.Content, &to.prompt) == nil {
			return true
		}
		var blocks []claudeBlock
		if (l.Type == "user" || l.Type == "assistant") && boundedjson.Unmarshal(l.Message.Content, &blocks) == nil {
			for _, b := range blocks {
				switch b.Type {
				case "tool_use":
					to.began = append(to.began, session.ToolUse{Name: b.Name, CallID: b.ID, Input: b.Input})
				case "tool_result":
					to.ended[b.ToolUseID] = true
				}
			}
		}
		return false
	},
	sameIDs: true,
}

// notInName are the characters of a directory that Claude Code replaces in the name of its sessions' directory.
var notInName = regexp.MustCompile(`[^a-zA-Z0-9]`)

// claudeLines decodes Claude Code's stream-json. The pieces of a message come as stream_event, and
// then its complete blocks as assistant.
type claudeLines struct {
	*stream
	message  string          // the ID of the message that is being streamed
	streamed map[string]bool // the messages with text that was emitted in pieces
	whole    bool            // the last message is complete
	calls    []string        // of the agent itself, in their order
	ends     map[string]bool // the calls that have ended
	context  int64           // tokens of the last call
	reported session.Usage   // the usage reported so far, which only rises
}

type claudeUsage struct {
	Input   int64 `json:"input_tokens"`
	Created int64 `json:"cache_creation_input_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Output  int64 `json:"output_tokens"`
}

type claudeMessage struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"`
	Usage   claudeUsage     `json:"usage"`
}

type claudeBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

// claudeHead has the fields that several kinds of lines share.
type claudeHead struct {
	Subtype   string        `json:"subtype"`
	SessionID string        `json:"session_id"`
	Model     string        `json:"model"`
	Parent    string        `json:"parent_tool_use_id"` // not empty: a helper of the agent speaks
	Message   claudeMessage `json:"message"`
}

func (c *claudeLines) line(of string, data []byte) error {
	switch of {
	case "result":
		return c.result(data)
	case "stream_event":
		return c.piece(data)
	}
	var l claudeHead
	if of == "system" || of == "assistant" || of == "user" {
		if err := boundedjson.Unmarshal(data, &l); err != nil {
			return err
		}
	}
	switch of {
	case "system":
		return c.system(l, data)
	case "assistant":
		return c.assistant(l, data)
	case "user":
		return c.blocks(of, l)
	}
	if of != "progress" && of != "attachment" { // of hooks
		c.raw(of, data)
	}
	return nil
}

func (c *claudeLines) system(l claudeHead, data []byte) error {
	switch l.Subtype {
	case "init":
		c.model = cmp.Or(l.Model, c.model)
		return c.session(l.SessionID)
	case "status", "thinking_tokens": // frequent, and of no use
	default:
		c.raw("system/"+l.Subtype, data)
	}
	return nil
}

func (c *claudeLines) assistant(l claudeHead, data []byte) error {
	var fault struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(data, &fault) == nil && fault.Error != "" && !c.streamed[l.Message.ID] {
		return nil // not the model's words: the result has them as its error
	}
	if l.Parent == "" {
		if m := l.Message.Model; m != "" && !strings.HasPrefix(m, "<") { // <synthetic> marks the program's own words
			c.model = m
		}
		c.context = max(c.context, l.Message.Usage.read()+l.Message.Usage.Output)
	}
	return c.blocks("assistant", l)
}

// blocks takes the blocks of a complete message.
func (c *claudeLines) blocks(of string, l claudeHead) error {
	var blocks []json.RawMessage
	if len(l.Message.Content) == 0 || l.Message.Content[0] == '"' {
		return nil // a user's text: the prompt
	}
	if err := boundedjson.Unmarshal(l.Message.Content, &blocks); err != nil {
		return err
	}
	var failed error
	for _, block := range blocks {
		var b claudeBlock
		if err := json.Unmarshal(block, &b); err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		switch {
		case b.Type == "text" && b.Text != "" && l.Message.ID != "":
			switch {
			case l.Parent != "":
				c.thought(b.Text) // a helper's words are not the agent's reply
			case !c.streamed[l.Message.ID] && !c.streamed[""]: // pieces of an unknown message are this one's
				c.paragraph()
				c.text(b.Text)
			}
		case b.Type == "thinking" && !c.streamed[l.Message.ID]:
			c.thought(b.Thinking)
		case strings.HasSuffix(b.Type, "tool_use"):
			if l.Parent == "" {
				c.calls = append(c.calls, b.ID)
			}
			failed = cmp.Or(failed, c.toolStart(b.ID, b.Name, b.Input))
		case strings.HasSuffix(b.Type, "tool_result"):
			c.ends[b.ToolUseID] = true
			failed = cmp.Or(failed, c.toolEnd(b.ToolUseID, b.Content, b.failure()))
		case b.Type == "text" || strings.HasSuffix(b.Type, "thinking"): // it was streamed, or is the prompt, or is encrypted
		default:
			c.raw(of+"/"+b.Type, block)
		}
	}
	return failed
}

// failure is why a tool failed; empty: it did not. A tool that the vendor runs reports a failure as
// an object instead of a flag.
func (b claudeBlock) failure() string {
	var fault struct {
		Type string `json:"type"`
		Code string `json:"error_code"`
	}
	switch {
	case b.IsError:
		return cmp.Or(plain(b.Content), "the tool failed")
	case json.Unmarshal(b.Content, &fault) == nil && strings.HasSuffix(fault.Type, "_error"):
		return cmp.Or(fault.Code, fault.Type)
	}
	return ""
}

// piece takes a stream_event: an event of the Messages API.
func (c *claudeLines) piece(data []byte) error {
	var l struct {
		Parent string `json:"parent_tool_use_id"`
		Event  struct {
			Type    string        `json:"type"`
			Message claudeMessage `json:"message"`
			Block   claudeBlock   `json:"content_block"`
			Delta   struct {
				Text     halves.Piece `json:"text"`
				Thinking halves.Piece `json:"thinking"`
				Stop     string       `json:"stop_reason"`
			} `json:"delta"`
			Usage claudeUsage `json:"usage"`
		} `json:"event"`
	}
	if err := boundedjson.Unmarshal(data, &l); err != nil {
		return err
	}
	if l.Parent != "" {
		return nil
	}
	switch l.Event.Type {
	case "message_start":
		c.message, c.whole = l.Event.Message.ID, false
		c.context = l.Event.Message.Usage.read()
	case "content_block_start":
		if l.Event.Block.Type == "text" {
			c.paragraph()
			c.emitPiece(halves.Piece{Text: l.Event.Block.Text}, halves.Piece{})
		}
	case "content_block_delta":
		c.emitPiece(l.Event.Delta.Text, l.Event.Delta.Thinking)
	case "message_delta":
		c.context += l.Event.Usage.Output
		c.whole = l.Event.Delta.Stop == "end_turn"
	}
	return nil
}

func (c *claudeLines) emitPiece(text, thinking halves.Piece) {
	if !text.Empty() || !thinking.Empty() {
		c.streamed[c.message] = true
		c.text(c.words.Join(text))
		c.thought(c.thoughts.Join(thinking))
	}
}

// complete: Claude Code may lose its last lines when it exits, see pump. Its exit code 0 still
// shows that the turn succeeded.
func (c *claudeLines) complete() bool { return c.whole }

// read is all that the model read, cached or not.
func (u claudeUsage) read() int64 { return u.Input + u.Created + u.Read }

func (c *claudeLines) result(data []byte) error {
	var l struct {
		Subtype string                 `json:"subtype"`
		IsError bool                   `json:"is_error"`
		Result  string                 `json:"result"`
		Errors  []string               `json:"errors"`
		CostUSD float64                `json:"total_cost_usd"`
		Stop    string                 `json:"stop_reason"`
		Call    claudeBlock            `json:"deferred_tool_use"`
		Usage   claudeUsage            `json:"usage"`
		Models  map[string]claudeModel `json:"modelUsage"`
	}
	if err := boundedjson.Unmarshal(data, &l); err != nil {
		return err
	}
	total := session.Usage{
		InputTokens: l.Usage.read(), CachedTokens: l.Usage.Read, OutputTokens: l.Usage.Output, CostUSD: l.CostUSD,
	}
	if len(l.Models) > 0 { // these include the usage of helpers, which the cost includes too
		total = session.Usage{CostUSD: l.CostUSD}
		for _, m := range l.Models {
			total.InputTokens += m.Input + m.Read + m.Created
			total.CachedTokens += m.Read
			total.OutputTokens += m.Output
		}
	}
	used := since(total, c.reported)
	c.reported = total
	used.Model, used.ContextTokens, used.ContextLimit = c.model, c.context, l.Models[c.model].Window
	c.usage(used)

	if l.Stop == "tool_deferred" {
		return c.deferral(l.Call)
	}
	if !l.IsError && !strings.HasPrefix(l.Subtype, "error") {
		if !c.open { // a command of the program, for example: nothing was streamed
			c.text(l.Result)
		}
		c.paragraph() // it may continue after a background task
		c.end("")
		if c.state.Deferred == nil {
			return nil
		}
		c.state.Deferred = nil // it has gone on without the call
		return c.storeState()
	}
	said := cmp.Or(l.Result, strings.Join(l.Errors, "\n"))
	if said == "" {
		said = "it ended early: " + strings.ReplaceAll(strings.TrimPrefix(l.Subtype, "error_"), "_", " ")
	}
	c.end(said)
	return nil
}

type claudeModel struct {
	Input   int64 `json:"inputTokens"`
	Output  int64 `json:"outputTokens"`
	Read    int64 `json:"cacheReadInputTokens"`
	Created int64 `json:"cacheCreationInputTokens"`
	Window  int64 `json:"contextWindow"`
}
