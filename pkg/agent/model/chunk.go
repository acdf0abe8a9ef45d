package model

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/session"
)

// chunk is a piece of a completion, or a whole one. What servers send in more than one form stays as it came.
type chunk struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Groq    struct {
		Usage json.RawMessage `json:"usage"`
	} `json:"x_groq"`

	// Of an error.
	Error     json.RawMessage `json:"error"`
	ErrorType json.RawMessage `json:"error_type"`
	MiniMax   struct {
		Code json.RawMessage `json:"status_code"`
	} `json:"base_resp"`
	Message json.RawMessage `json:"message"`
	Msg     json.RawMessage `json:"msg"`
	Detail  json.RawMessage `json:"detail"`

	done bool // no chunk follows
}

type choice struct {
	Index   int64           `json:"index"`
	Finish  json.RawMessage `json:"finish_reason"`
	Delta   fields          `json:"delta"`
	Message fields          `json:"message"` // of a server that does not stream
	Text    json.RawMessage `json:"text"`    // of one with legacy completions
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

// fields are those of an object.
type fields map[string]json.RawMessage

// fragment is a piece of a tool call.
type fragment struct {
	index, id, name string // "": missing
	args            json.RawMessage
	rest            fields
}

// errShape is an error of the response: it has something that Chat Completions do not have.
var errShape = errors.New("the response cannot be read")

// chunks yields the chunks of a response until its end, or the error that ended it. The server's words for what it sends
// are not asked: some call a stream JSON, and the other way round.
func chunks(r io.Reader) iter.Seq2[chunk, error] {
	return func(yield func(chunk, error) bool) {
		b := bufio.NewReader(r)
		switch first(b) {
		case '<':
			text, _ := io.ReadAll(io.LimitReader(b, maxErrorBody))
			yield(chunk{}, newStatusError(http.StatusOK, nil, text))
			return
		case '{':
			whole(b, yield)
			return
		}
		for data, err := range events(b, maxEvent) {
			if err != nil {
				yield(chunk{}, err)
				return
			}
			if isDone(data) {
				yield(chunk{done: true}, nil)
				return
			}
			if c, err := readChunk(data); !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// first is the first byte that is neither white space nor part of a byte order mark, which are skipped; 0: there is none.
func first(b *bufio.Reader) byte {
	for {
		switch c, err := b.ReadByte(); {
		case err != nil:
			return 0 // reading on gives the error again
		case c == 0xEF || c == 0xBB || c == 0xBF || c == ' ' || c == '\t' || c == '\r' || c == '\n':
		default:
			_ = b.UnreadByte()
			return c
		}
	}
}

// whole yields the documents of a response that is no stream: a completion, an error, or a chunk a line.
func whole(r io.Reader, yield func(chunk, error) bool) {
	dec, streamed := json.NewDecoder(io.LimitReader(r, maxEvent)), false // what comes in deltas says by itself that it is over
	for {
		var data json.RawMessage
		err := dec.Decode(&data)
		if errors.Is(err, io.EOF) {
			yield(chunk{done: !streamed}, nil)
			return
		}
		var c chunk
		if err == nil {
			c, err = readChunk(data)
		}
		if err == nil && c.Choices == nil && len(c.Usage) == 0 {
			err = newStatusError(http.StatusOK, nil, data)
		}
		streamed = streamed || slices.ContainsFunc(c.Choices, func(c choice) bool { return c.Delta != nil })
		if !yield(c, err) || err != nil {
			return
		}
	}
}

// readChunk reads a chunk. An error in it, at the top or in a choice, is one of the response, whatever the rest is.
func readChunk(data []byte) (c chunk, err error) {
	err = boundedjson.Unmarshal(data, &c)
	if !nothing(c.Error) || len(c.Choices) == 0 && (isText(c.Message) || isText(c.Msg) || !nothing(c.Detail) || !nothing(c.ErrorType) || !nothing(c.MiniMax.Code)) {
		return c, newStatusError(0, nil, data)
	}
	for _, choice := range c.Choices {
		for _, raw := range []json.RawMessage{choice.Error, choice.Delta["error"], choice.Message["error"]} {
			if !nothing(raw) {
				return c, newStatusError(0, nil, fmt.Appendf(nil, `{"error":%s}`, raw))
			}
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errShape, err)
	}
	return c, err
}

// nothing reports whether a value is missing or empty, or says no.
func nothing(raw json.RawMessage) bool {
	return blank(raw) || string(raw) == "false" || string(raw) == "0"
}

func blank(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "{}", "[]", `""`:
		return true
	}
	return false
}

func isText(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte{'"'}) }

// str is a string, which may be missing or null.
func str(raw json.RawMessage, what string) (s string, err error) {
	if len(raw) > 0 && json.Unmarshal(raw, &s) != nil {
		err = fmt.Errorf("%w: its %s is %s", errShape, what, oneLine(string(raw)))
	}
	return s, err
}

// fragments are the pieces of tool calls in a delta.
func fragments(raw json.RawMessage) (all []fragment, err error) {
	var list []fields
	if nothing(raw) {
		return nil, nil
	}
	if err := boundedjson.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%w: its tool_calls: %w", errShape, err)
	}
	for _, rest := range list {
		var f fragment
		var function fields
		if raw := rest["function"]; len(raw) > 0 {
			err = json.Unmarshal(raw, &function)
		}
		if id := rest["id"]; err == nil && isText(id) {
			f.id, err = str(id, "id")
		} else if string(id) != "null" {
			f.id = string(id) // a number
		}
		if err == nil {
			f.name, err = str(function["name"], "tool's name")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: a tool call: %w", errShape, err)
		}
		if index := string(rest["index"]); index != "null" {
			f.index = index
		}
		if f.args = function["arguments"]; string(f.args) == "null" {
			f.args = nil
		}
		for _, known := range []string{"index", "id", "type", "function"} {
			delete(rest, known)
		}
		f.rest = rest
		all = append(all, f)
	}
	return all, nil
}

// part is one of a content that is a list.
type part struct {
	Type     string          `json:"type"`
	Text     json.RawMessage `json:"text"`
	Thinking json.RawMessage `json:"thinking"` // a text, or parts
}

// parts returns the texts of a content that is a list as one, and the thoughts.
func parts(raw json.RawMessage) (said, thought json.RawMessage, err error) {
	var list, texts, thoughts []json.RawMessage
	if err := boundedjson.Unmarshal(raw, &list); err != nil {
		return nil, nil, fmt.Errorf("%w: its content is %s", errShape, oneLine(string(raw)))
	}
	for _, raw := range list {
		var p part
		switch {
		case isText(raw):
			texts = append(texts, raw)
		case json.Unmarshal(raw, &p) == nil && isText(p.Text) && slices.Contains([]string{"", "text", "output_text"}, p.Type):
			texts = append(texts, p.Text)
		case isText(p.Thinking):
			thoughts = append(thoughts, p.Thinking)
		case len(p.Thinking) > 0:
			more, _, err := parts(p.Thinking)
			if err != nil {
				return nil, nil, err
			}
			thoughts = append(thoughts, more)
		case p.Type != "reference": // Mistral's, of a tool's result
			return nil, nil, fmt.Errorf("%w: its content has %s", errShape, oneLine(string(raw)))
		}
	}
	return concatenated(texts), concatenated(thoughts), nil
}

// concatenated is one text of several, all as JSON: so a surrogate pair in two pieces is one character.
func concatenated(texts []json.RawMessage) json.RawMessage {
	all := json.RawMessage{'"'}
	for _, text := range texts {
		all = append(all, text[1:len(text)-1]...)
	}
	return append(all, '"')
}

// usage has the names that servers give their counts.
type usage struct {
	Prompt     count `json:"prompt_tokens"`
	Completion count `json:"completion_tokens"`
	Details    struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CacheHit count `json:"prompt_cache_hit_tokens"` // DeepSeek
	Cached   count `json:"cached_tokens"`           // Kimi
}

// count is a number, which may be a text. 0: it is none, or cannot be right.
type count int64

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(data []byte) error {
	if n, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64); err == nil && n > 0 && n < 1e15 {
		*c = count(n)
	}
	return nil
}

// usage returns what a chunk says of it, wherever it is; nil: nothing.
func (c chunk) usage(model string) *session.Usage {
	all := []json.RawMessage{c.Usage, c.Groq.Usage}
	for _, choice := range c.Choices {
		all = append(all, choice.Usage)
	}
	for _, raw := range all {
		var u usage
		if nothing(raw) || json.Unmarshal(raw, &u) != nil || u.Prompt+u.Completion == 0 {
			continue
		}
		return &session.Usage{
			Model: cmp.Or(c.Model, model), InputTokens: int64(u.Prompt), CachedTokens: int64(cmp.Or(u.Details.Cached, u.CacheHit, u.Cached)),
			OutputTokens: int64(u.Completion), ContextTokens: int64(u.Prompt + u.Completion),
		}
	}
	return nil
}

// half is the first half of a surrogate pair, as JSON writes it, at the end of a text that comes in pieces.
type half string

// decode returns the next piece of a text. It keeps a half back until the next piece.
func (h *half) decode(raw json.RawMessage, what string) (string, error) {
	if !isText(raw) {
		return str(raw, what)
	}
	inner := string(*h) + string(raw[1:len(raw)-1])
	*h = ""
	if at := len(inner) - len(`\ud83d`); at >= 0 && isHigh(inner[at:]) && (len(inner[:at])-len(strings.TrimRight(inner[:at], `\`)))%2 == 0 {
		*h, inner = half(inner[at:]), inner[:at]
	}
	return str(json.RawMessage(`"`+inner+`"`), what)
}

func isHigh(escape string) bool {
	return strings.HasPrefix(escape, `\u`) && strings.IndexByte("dD", escape[2]) >= 0 && strings.IndexByte("89abAB", escape[3]) >= 0
}
