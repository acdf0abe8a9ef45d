package acp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"turnstile/internal/process/command"
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// toolUpdate is an agent's report on a tool that is new, runs or needs a permission. A missing field
// has not changed.
type toolUpdate struct {
	ID        string          `json:"toolCallId"`
	Title     *string         `json:"title"`
	ToolKind  string          `json:"kind"`
	Status    string          `json:"status"`
	RawInput  json.RawMessage `json:"rawInput"`
	RawOutput json.RawMessage `json:"rawOutput"`
	Content   json.RawMessage `json:"content"`
}

// tool is a tool that has not ended.
type tool struct {
	id, name        string
	input           json.RawMessage
	output, content json.RawMessage
	started         bool
	status          string // the last that the agent reported
	refused         string // why it may not run; empty: not denied
}

// tools are those of a turn.
//
// Agents announce a tool as pending, and mostly know its name and arguments only later. Such a
// start is held until there is an update of the tool, or until an event must come after it.
type tools struct {
	emit func(agent.Event)
	open []*tool // in the order of their announcements
	done map[string]bool
}

// update takes an agent's report of a tool.
func (s *tools) update(u toolUpdate) {
	if s.done[u.ID] {
		return
	}
	i := slices.IndexFunc(s.open, func(t *tool) bool { return t.id == u.ID })
	known := i >= 0
	if !known {
		i = len(s.open)
		s.open = append(s.open, &tool{id: u.ID})
	}
	t := s.open[i]
	if u.Title != nil && *u.Title != "" {
		t.name = *u.Title
	} else if t.name == "" {
		t.name = u.ToolKind
	}
	if yes(u.RawInput) {
		t.input = u.RawInput
	}
	if u.RawOutput != nil {
		t.output = u.RawOutput
	}
	if u.Content != nil {
		t.content = u.Content
	}
	if u.Status != "" {
		t.status = u.Status
	}
	if u.Status != "pending" && (known || u.Status != "") {
		s.start(t)
	}
	switch u.Status {
	case "completed":
		s.finish(t, agent.Event{Output: t.result()})
	case "failed":
		s.finish(t, agent.Event{Error: t.complaint()})
	}
}

// maxOpen is how many tools of a turn may be open at once.
const maxOpen = 1000

var errTools = fmt.Errorf("it has more than %d tools open at once, or they have more than %d MiB", maxOpen, command.MaxOutput>>20)

// tooMany reports whether more tools are open than a turn may have. Their reports are kept until
// they end.
func (s *tools) tooMany() bool {
	size := 0
	for _, t := range s.open {
		size += len(t.id) + len(t.name) + len(t.input) + len(t.output) + len(t.content)
	}
	return len(s.open) > maxOpen || size > command.MaxOutput
}

// again registers a new tool. Some models count their calls from 0 in each response, so its ID may
// be that of an earlier tool.
func (s *tools) again(id string) { delete(s.done, id) }

func (s *tools) start(t *tool) {
	if t.started {
		return
	}
	t.started = true
	name := t.name
	if name == "" {
		name = "tool"
	}
	s.emit(agent.Event{Type: session.EventToolStart, Name: name, CallID: t.id, Input: t.input})
}

func (s *tools) finish(t *tool, e agent.Event) {
	e.Type, e.CallID = session.EventToolEnd, t.id
	s.emit(e)
	s.open = slices.DeleteFunc(s.open, func(other *tool) bool { return other == t })
	if s.done == nil {
		s.done = map[string]bool{}
	}
	s.done[t.id] = true
}

// flush emits the starts that are held.
func (s *tools) flush() {
	for _, t := range s.open {
		s.start(t)
	}
}

// end ends the open tools: with err, or without an output if it is empty. A tool that was denied,
// or has an unknown status, still ends with an error.
func (s *tools) end(err string) {
	s.flush()
	for _, t := range slices.Clone(s.open) {
		e := agent.Event{Error: err}
		switch t.status {
		case "", "pending", "in_progress":
			e.Error = cmp.Or(err, t.refused)
		default:
			e.Error = cmp.Or(err, t.refused, fmt.Sprintf("the agent ended it with the status %.100q", t.status))
		}
		if e.Error == "" {
			e.Output = t.result()
		}
		s.finish(t, e)
	}
}

// result is a tool's raw output, or else the text that the agent shows.
func (t *tool) result() json.RawMessage {
	if yes(t.output) {
		return t.output
	}
	if text, ok := contentText(t.content); ok {
		return encode(text)
	}
	if yes(t.content) && string(t.content) != "[]" {
		return t.content
	}
	if t.output != nil {
		return t.output
	}
	return json.RawMessage("null")
}

// complaint is why a tool failed.
func (t *tool) complaint() string {
	if text, ok := contentText(t.content); ok && strings.TrimSpace(text) != "" {
		return text
	}
	var text string
	var object map[string]json.RawMessage
	if json.Unmarshal(t.output, &text) != nil && boundedjson.Unmarshal(t.output, &object) == nil {
		for _, key := range []string{"error", "message", "output"} {
			if json.Unmarshal(object[key], &text) == nil && text != "" {
				break
			}
		}
	}
	switch {
	case text != "":
		return text
	case yes(t.output):
		return string(t.output)
	}
	return cmp.Or(t.refused, "the tool failed")
}

// contentText is the text of a tool's content. It returns false if not all of it is text.
func contentText(content json.RawMessage) (string, bool) {
	var blocks []struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
	}
	if boundedjson.Unmarshal(content, &blocks) != nil || len(blocks) == 0 {
		return "", false
	}
	var all []string
	for _, b := range blocks {
		text, ok := textOf(b.Content)
		if b.Type != "content" || !ok {
			return "", false
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n"), true
}

// decided takes the decision on a tool. why is the reason of a denial.
func (s *tools) decided(id, why string) {
	for _, t := range s.open {
		if t.id != id {
			continue
		}
		if t.refused = why; why != "" {
			t.content = nil // it was the question
		}
	}
}

// asks takes the tool that needs a permission, and returns its name. The request does not end the
// tool, whatever status it has.
func (s *tools) asks(u toolUpdate) string {
	u.Status = "in_progress"
	s.update(u)
	for _, t := range s.open {
		if t.id == u.ID && t.name != "" {
			return t.name
		}
	}
	if u.Title != nil {
		return *u.Title
	}
	return u.ToolKind
}
