package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// reader puts together what comes in pieces, which belongs to one completion.
type reader struct {
	open    map[string]int // the call of each index; "" is the last one's without an index
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
		a.deltas = a.deltas || len(d) > 0
		if !a.deltas {
			d = choice.Message
		}
		if err := r.delta(a, d); err != nil {
			return err
		}
		finish, err := str(choice.Finish, "finish_reason")
		if err != nil {
			return err
		}
		a.finish = cmp.Or(finish, a.finish)
	}
	if a.size > r.maxCompletion {
		return errTooMuch
	}
	return nil
}

func (r *run) delta(a *completion, d fields) error {
	var said, thought string
	var err error
	if raw := d["content"]; bytes.HasPrefix(raw, []byte("[")) {
		said, thought, err = parts(raw)
	} else {
		said, err = a.said.decode(raw, "content")
	}
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
		if name != "role" && name != "content" && name != "refusal" && name != "tool_calls" {
			a.size += a.rest.add(name, raw)
		}
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
	at, known := a.open[f.index]
	if f.index == "" {
		at, known = len(a.calls)-1, len(a.calls) > 0
	}
	for i := range a.calls {
		if c := &a.calls[i]; f.id != "" && c.id == f.id && c.index == f.index {
			at, known = i, true
		}
	}
	if known && a.calls[at].repeats(f) {
		return nil
	}
	if !known || r.begins(&a.calls[at], f, a.chunks) {
		at = len(a.calls)
		a.calls = append(a.calls, toolCall{index: f.index})
	}
	a.open[f.index] = at
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
	c.raw = append(c.raw, args...)
	for name, raw := range f.rest {
		a.size += c.rest.add(name, raw)
	}
	a.size += len(args) + len(f.name) + len(f.id) + len(f.index) + fragmentSize
	return nil
}

// repeats reports whether a piece is the whole call once more: some servers end with it.
func (c *toolCall) repeats(f fragment) bool {
	args, err := str(f.args, "")
	if err != nil {
		args = string(f.args)
	}
	return f.id != "" && f.id == c.id && f.name == c.name && args == string(c.raw) && json.Valid(c.raw)
}

// begins reports whether a piece begins another call than c, which has its index. The index, the ID or both may be equal
// for all calls, new in each piece, or missing, and a name may come in pieces or again in each piece. So what counts is
// whether the piece makes sense as c's next one.
func (r *run) begins(c *toolCall, f fragment, chunk int) bool {
	if f.name == "" {
		return false
	}
	another := f.id != "" && c.id != "" && f.id != c.id
	args := len(bytes.Trim(f.args, "\" \\nrt")) > 0
	switch whole := bytes.HasSuffix(bytes.TrimSpace(c.raw), []byte("}")) && json.Valid(c.raw); { // cheap for most pieces
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
	for i := range a.calls {
		c := &a.calls[i]
		c.id, c.fields = ids.unique(c.id), c.rest.join()
		if len(bytes.TrimSpace(c.raw)) == 0 {
			c.raw = []byte("{}")
		}
		c.args = fittingArgs(c.raw)
	}
}

// reasons are the ways in which a reply ends, by its finish_reason in lower case. A reason that is not here has failed.
var reasons = map[string]string{
	"stop": "stop", "tool_calls": "stop", "function_call": "stop", "tool_use": "stop", "end_turn": "stop", "stop_sequence": "stop", "eos": "stop", "eos_token": "stop", "complete": "stop",
	"length": finishLength, "max_tokens": finishLength, "max_output_tokens": finishLength, "model_length": finishLength,
	"content_filter": finishFilter, "safety": finishFilter, "refusal": finishFilter, "sensitive": finishFilter,
	"blocklist": finishFilter, "prohibited_content": finishFilter, "recitation": finishFilter, "spii": finishFilter,
}

// end gives a completion one of the reasons that the agent knows, or returns the error of a reply that has failed.
func (a *completion) end() error {
	reason, _, _ := strings.Cut(strings.ToLower(a.finish), ":")
	known, ok := reasons[reason]
	switch {
	case ok:
		a.finish = known
		return nil
	case strings.Contains(reason, "context_window") || strings.Contains(reason, "context_length"):
		return &statusError{message: "the reply ended with " + a.finish + ", which is the context window's end"}
	}
	return fmt.Errorf("the reply ended with %q: %w", oneLine(a.finish), errEnded)
}
