package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"turnstile/internal/text/boundedjson"
)

// reader puts together what comes in pieces, which belongs to one completion.
type reader struct {
	open    map[[2]string]int // the call of each index, and of each index and ID
	chunks  int
	deltas  bool // the reply comes in deltas
	said    half
	thought half
	rest    pieces
}

// chunk adds a chunk to a completion.
func (r *run) chunk(a *completion, c chunk) error {
	defer a.heard(r)
	a.chunks++
	a.done = a.done || c.done
	if u := c.usage(r.config.Model); u != nil {
		a.usage = u
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one was requested
		}
		d := choice.Delta
		for name, raw := range d {
			a.deltas = a.deltas || name != "role" && !nothing(raw)
		}
		switch {
		case a.deltas:
		case choice.Message != nil:
			d = choice.Message
		case isText(choice.Text):
			d = fields{"content": choice.Text}
		}
		if err := r.delta(a, d); err != nil {
			return err
		}
		finish, err := str(choice.Finish, "finish_reason")
		if err != nil {
			return err
		}
		switch {
		case finish == "null": // DashScope's until the end
		case a.finish == "" || reason(a.finish) == "stop": // a reason of a failure stays
			a.finish = cmp.Or(finish, a.finish)
		}
	}
	if a.size > r.maxCompletion {
		return errTooMuch
	}
	return nil
}

func (r *run) delta(a *completion, d fields) error {
	content, hint := d["content"], json.RawMessage(nil)
	if bytes.HasPrefix(content, []byte("[")) {
		var err error
		if content, hint, err = parts(content); err != nil {
			return err
		}
	}
	said, err := a.said.decode(content, "content")
	if err != nil {
		return err
	}
	thought, err := a.thought.decode(hint, "content")
	if err != nil {
		return err
	}
	refusal, err := str(d["refusal"], "refusal")
	if err != nil {
		return err
	}
	for _, name := range []string{"reasoning_content", "reasoning"} { // some servers send both, with the same text
		if isText(d[name]) && thought == "" {
			if thought, err = a.thought.decode(d[name], name); err != nil {
				return err
			}
		}
	}
	r.think(a, thought)
	r.say(a, said+refusal)
	for name, raw := range d {
		if !slices.Contains([]string{"role", "content", "refusal", "tool_calls", "function_call"}, name) {
			a.size += a.rest.add(name, raw)
		}
	}
	if call := d["function_call"]; !nothing(call) && nothing(d["tool_calls"]) { // the form before tool_calls
		d["tool_calls"] = fmt.Appendf(nil, `[{"function":%s}]`, call)
	}
	calls, err := fragments(d["tool_calls"])
	if err != nil {
		return err
	}
	for _, f := range calls {
		if err := r.fragment(a, f); err != nil {
			return err
		}
	}
	return nil
}

// fragment adds a piece of a tool call.
func (r *run) fragment(a *completion, f fragment) error {
	a.size += fragmentSize
	if f.id+f.name == "" && nothing(f.args) && len(f.rest) == 0 {
		return nil // nothing is in it, so it begins no call
	}
	at, known := a.open[[2]string{f.index, f.id}]
	switch {
	case known && f.id != "":
	case f.index == "":
		at, known = len(a.calls)-1, len(a.calls) > 0
	default:
		at, known = a.open[[2]string{f.index}]
	}
	if !known || r.begins(&a.calls[at], f, a.chunks) {
		at = len(a.calls)
		a.calls = append(a.calls, toolCall{index: f.index})
	}
	a.open[[2]string{f.index}], a.open[[2]string{f.index, f.id}] = at, at
	c := &a.calls[at]
	c.id, c.chunk = cmp.Or(c.id, f.id), a.chunks
	if c.name != f.name {
		c.name += f.name
	}
	args := string(f.args)
	if isText(f.args) {
		var err error
		if args, err = c.half.decode(f.args, "arguments"); err != nil {
			return err
		}
	}
	if args != "" && string(c.raw) == "{}" { // some servers begin with it
		c.raw = nil
	}
	c.raw = append(c.raw, args...)
	for name, raw := range f.rest {
		a.size += c.rest.add(name, raw)
	}
	a.size += len(args) + len(f.name) + len(f.id) + len(f.index)
	return nil
}

// begins reports whether a piece begins another call than c, which has its index. The index, the ID or both may be equal
// for all calls, new in each piece, or missing, and a name may come in pieces or again in each piece. So what counts is
// whether the piece makes sense as c's next one.
func (r *run) begins(c *toolCall, f fragment, chunk int) bool {
	another := f.id != "" && c.id != "" && f.id != c.id
	switch {
	case c.name == "":
		return f.name != "" && (another || c.chunk == chunk) // c stays without a name, and the reply fails
	case f.name == "":
		return another && c.chunk == chunk
	}
	args := len(bytes.Trim(f.args, "\" \\nrt")) > 0
	switch whole := bytes.HasSuffix(bytes.TrimSpace(c.raw), []byte("}")) && (another || string(c.raw) != "{}") && json.Valid(c.raw); { // cheap for most pieces
	case c.chunk == chunk: // in one list
		return true
	case f.name == c.name:
		return whole && (another || args) || len(c.raw) == 0 && another && !args
	case len(c.raw) > 0:
		return true
	}
	return r.named(c.name, false) && r.named(f.name, true) && (another || !r.named(c.name+f.name, true))
}

// named reports whether a tool has this name, or one that begins so.
func (r *run) named(name string, begins bool) bool {
	return slices.ContainsFunc(slices.AppendSeq(slices.Collect(maps.Keys(r.tools)), maps.Keys(r.functions)), func(tool string) bool {
		return tool == name || begins && strings.HasPrefix(tool, name)
	})
}

// normalizeCalls makes the calls ready to run and to repeat: every ID becomes unique, and arguments
// that are not an object are not sent to a server again.
func (a *completion) normalizeCalls(ids *callIDs) {
	if len(a.rest) > 0 {
		a.fields = a.rest.join()
	}
	a.leaveOutRepeated()
	for i := range a.calls {
		c := &a.calls[i]
		c.id, c.fields = ids.unique(c.id), c.rest.join()
		if len(bytes.TrimSpace(c.raw)) == 0 {
			c.raw = []byte("{}")
		}
		c.args = fittingArgs(c.raw)
	}
}

// leaveOutRepeated leaves out calls that came before: some servers end with all of them once more, with other IDs or without
// arguments. Calls in one list are different ones, and so are those of different indexes.
func (a *completion) leaveOutRepeated() {
	seen := map[string]toolCall{}
	a.calls = slices.DeleteFunc(a.calls, func(c toolCall) bool {
		of, args := fmt.Sprintf("%q %q ", cmp.Or(c.index, "of "+c.id), c.name), canonical(c.raw)
		if args == "{}" || args == `""` {
			args = "" // again with any arguments
		}
		before, again := seen[of+args]
		seen[of], seen[of+args] = c, c
		return again && (before.chunk != c.chunk || c.id != "" && before.id == c.id)
	})
}

// canonical is the arguments in one spelling of their value, or as they are if they are not JSON.
func canonical(raw []byte) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if !json.Valid(raw) || boundedjson.Check(raw, &value) != nil || dec.Decode(&value) != nil {
		return string(raw)
	}
	text, _ := encode(plainNumbers(value)) // it was decoded
	return string(text)
}

// plainNumbers is a value with 1 for 1.0 and 1e0. Numbers of more digits than a float has stay as they are.
func plainNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		const exact = 15
		if n, err := v.Float64(); err == nil && len(v) <= exact {
			return n
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plainNumbers(v[name])
		}
	}
	return value
}

// reasons are the ways in which a reply ends, by its finish_reason in lower case. A reason that is not here has failed.
var reasons = map[string]string{
	"stop": "stop", "tool_calls": "stop", "function_call": "stop", "tool_use": "stop", "end_turn": "stop", "stop_sequence": "stop", "eos": "stop", "eos_token": "stop", "complete": "stop",
	"length": finishLength, "max_tokens": finishLength, "max_output_tokens": finishLength, "model_length": finishLength,
	"content_filter": finishFilter, "safety": finishFilter, "refusal": finishFilter, "sensitive": finishFilter,
	"blocklist": finishFilter, "prohibited_content": finishFilter, "recitation": finishFilter, "spii": finishFilter,
}

// reason is the one of these that a finish_reason is; "" is none.
func reason(finish string) string {
	first, _, _ := strings.Cut(strings.ToLower(finish), ":")
	return reasons[first]
}

// end gives a completion one of the reasons that the agent knows, or returns the error of a reply that has failed.
func (a *completion) end() error {
	finish := strings.ToLower(a.finish)
	switch known := reason(finish); {
	case known != finishLength && known != finishFilter && slices.ContainsFunc(a.calls, func(c toolCall) bool { return c.name == "" }):
		return fmt.Errorf("%w: a tool call has no name", errShape)
	case known != "":
		a.finish = known
		return nil
	case strings.Contains(finish, "context_window") || strings.Contains(finish, "context_length"):
		return &statusError{message: "the reply ended with " + a.finish + ", which is the context window's end"}
	}
	return fmt.Errorf("the reply ended with %q: %w", oneLine(a.finish), errEnded)
}
