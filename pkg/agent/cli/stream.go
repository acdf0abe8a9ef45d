package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"

	"turnstile/internal/process/command"
	"turnstile/internal/text/boundedjson"
	"turnstile/internal/text/halves"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// stream turns a program's lines into the events of a turn, and keeps the turn's state.
type stream struct {
	emit     func(agent.Event)
	logger   *slog.Logger
	spec     command.Spec // how the program is started
	decoder  decoder
	often    string // see program
	state    state
	turn     string // the IDs of its messages, see idsOf
	prompted bool   // the program was given a prompt
	model    string // the configured one, until the program reports another

	hasOutput bool // there was text, a thought or a tool
	hasReply  bool // there was text that is not blank, or a tool
	open      bool // there was text since the last tool
	pending   bool // the next text is a separate paragraph

	words, thoughts halves.Joiner // of their pieces

	size    int    // bytes of text
	known   int    // lines that were understood
	noise   string // the last line that is not JSON
	ended   bool   // the program has reported the turn's end
	failure string // why it failed; empty: it succeeded
	trouble string // an error that it reported and that may not end the turn
}

// line takes one line. It ignores lines that are not JSON objects: these programs sometimes write
// warnings to stdout. An error ends the turn.
func (s *stream) line(data []byte) error {
	if s.piece(data) {
		return s.limit()
	}
	of, ok := typeOf(data)
	if !ok {
		s.noise = clean(cut(string(data), maxSentence))
		s.logger.Debug("agent's line is not an event and is ignored", "line", s.noise)
		return nil
	}
	s.known++
	if err := s.decoder.line(of, data); err != nil {
		s.logger.Debug("agent's event has an unknown shape", "type", of, "error", err)
		s.raw(of, data)
	}
	return s.limit()
}

// piece takes a line of the type that comes often: it is decoded once, and not for its type first.
// It returns false for other lines and unknown shapes.
func (s *stream) piece(data []byte) bool {
	if s.often == "" || !bytes.HasPrefix(data, []byte(`{"type":"`+s.often+`",`)) || s.decoder.line(s.often, data) != nil {
		return false
	}
	s.known++
	return true
}

func (s *stream) limit() error {
	if s.size > command.MaxText {
		return command.ErrTooMuchText
	}
	return nil
}

// typeOf is the type of an event. It returns false if the line is not an event.
func typeOf(data []byte) (string, bool) {
	var head struct {
		Type *string `json:"type"`
	}
	if data[0] != '{' || json.Unmarshal(data, &head) != nil || head.Type == nil {
		return "", false
	}
	return *head.Type, true
}

func (s *stream) text(text string) {
	if text == "" {
		return
	}
	if s.pending && s.open {
		text = "\n\n" + text
	}
	s.hasOutput, s.open, s.pending = true, true, false
	s.hasReply = s.hasReply || strings.TrimSpace(text) != ""
	s.size += len(text)
	s.emit(agent.Event{Type: session.EventText, Text: text})
}

// paragraph separates the next text from the one before.
func (s *stream) paragraph() { s.pending = true }

func (s *stream) thought(text string) {
	if text != "" {
		s.hasOutput = true
		s.emit(agent.Event{Type: session.EventThought, Text: text})
	}
}

func (s *stream) toolStart(id, name string, input json.RawMessage) error {
	if id == "" || name == "" {
		return errors.New("a tool without id or name")
	}
	s.hasOutput, s.hasReply, s.open = true, true, false
	s.emit(agent.Event{Type: session.EventToolStart, CallID: id, Name: name, Input: noNull(input)})
	return nil
}

// toolEnd ends a tool, with an error if failure is not empty.
func (s *stream) toolEnd(id string, output json.RawMessage, failure string) error {
	if id == "" {
		return errors.New("a tool's result without id")
	}
	s.hasOutput, s.hasReply, s.open = true, true, false
	e := agent.Event{Type: session.EventToolEnd, CallID: id, Error: failure}
	if failure == "" {
		if e.Output = noNull(output); e.Output == nil {
			e.Output = json.RawMessage("null")
		}
	}
	s.emit(e)
	return nil
}

func (s *stream) notice(text string) {
	if text = sentence(text); text != "" {
		s.emit(agent.Event{Type: session.EventNotice, Text: text})
	}
}

func (s *stream) raw(name string, data []byte) {
	s.emit(agent.Event{Type: session.EventRaw, Name: name, Data: append(json.RawMessage(nil), data...)})
}

// session sets the session in which the program works. It is called at every turn, and a later ID
// counts.
func (s *stream) session(id string) error {
	if !anID.MatchString(id) {
		return errors.New("an id of a session that is none")
	}
	if s.state.Session != id {
		s.state.Total = nil
		if s.state.Session != "" {
			s.state.Given = nil // it is about another record
		}
	}
	s.state.Session = id
	return s.storeState()
}

// storeState stores the state. Without a session there is nothing to resume.
func (s *stream) storeState() error {
	if s.state.Session == "" {
		return nil
	}
	data, err := json.Marshal(s.state)
	if err == nil {
		s.emit(agent.Event{Type: session.EventState, Data: data})
	}
	return err
}

// recapped is called when a turn has succeeded.
func (s *stream) recapped() error {
	if !s.state.Recap && s.state.Failures == 0 || s.state.Session == "" {
		return nil
	}
	s.state.Recap, s.state.Failures = false, 0
	return s.storeState()
}

func (s *stream) usage(u session.Usage) {
	if u.InputTokens != 0 || u.OutputTokens != 0 || u.CostUSD != 0 {
		s.emit(agent.Event{Type: session.EventUsage, Usage: &u})
	}
}

// end sets how the turn ended: failed if failure is not empty. After a success with a reply only a success counts:
// the user has read it, and what fails then is the program's own end.
func (s *stream) end(failure string) {
	if failure != "" && s.ended && s.failure == "" && s.hasReply {
		s.logger.Warn("the agent reported an error after the turn's success, which counts", "error", sentence(failure))
		return
	}
	s.ended, s.failure = true, failure
}

// over reports whether the program has nothing more to do for the turn. A result without words may be one of an
// earlier turn's background task.
func (s *stream) over() bool {
	return s.ended && (s.hasReply || s.failure != "" || s.state.Deferred != nil)
}

// noNull makes an explicit null an absent value, and copies any other.
func noNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return append(json.RawMessage(nil), raw...)
}

// plain is the text of a JSON string or of a list of blocks, or else the JSON itself.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	if boundedjson.Unmarshal(raw, &blocks) != nil {
		return string(raw)
	}
	var texts []string
	for _, b := range blocks {
		if b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}
