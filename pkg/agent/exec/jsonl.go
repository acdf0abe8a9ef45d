package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"turnstile/internal/process/command"
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// The types of lines that are not events of package agent.
const (
	lineReady   session.EventType = "ready"   // steers
	lineSteered session.EventType = "steered" // ID
	lineAsk     session.EventType = "ask"     // ID, name, text, call_id, input, key
	lineWait    session.EventType = "wait"    // key, timeout_ms, timer
	lineResult  session.EventType = "result"  // text; ends the turn
	lineError   session.EventType = "error"   // message, retryable; ends the turn
)

type line struct {
	agent.Event
	Steers    bool   `json:"steers"`
	ID        string `json:"id"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`

	// Of a tool that is a step, see agent.StepSpec and agent.StepEnd.
	Key      string `json:"key"`
	Safe     bool   `json:"safe"`
	RunAgain bool   `json:"run_again"`
	Hidden   bool   `json:"hidden"`
	Again    bool   `json:"again"`

	Timer   bool           `json:"timer"`
	Timeout session.Millis `json:"timeout_ms"`
}

// eventLines emits a command's lines as events.
type eventLines struct {
	emit      func(agent.Event)
	logger    *slog.Logger
	steers    *steering
	asks      *asking
	steps     *steps
	onEnd     func()       // called at the first line that ends the turn
	ended     bool         // there was such a line
	hasOutput bool         // there was text that is not blank, or a tool, or a result
	result    agent.Result // of that line, if it was a result
	failure   error        // of that line, if it was an error

	held agent.Event // text or a thought that is not emitted yet
	size int         // bytes of the turn's text
}

// read emits all lines of r. Pieces of text that come in one read become one event: an agent that
// writes single letters would otherwise make the worker copy its reply once a letter.
func (e *eventLines) read(r io.Reader) error {
	defer e.flush()
	return command.Lines(flushing{r, e.flush}, e.logger, e.line)
}

// flushing calls flush before it may have to wait.
type flushing struct {
	io.Reader
	flush func()
}

func (f flushing) Read(p []byte) (int, error) {
	f.flush()
	return f.Reader.Read(p)
}

func (e *eventLines) flush() {
	if e.held.Text != "" {
		e.emit(e.held)
		e.held = agent.Event{}
	}
}

// text takes a piece of text or of a thought.
func (e *eventLines) text(l line) error {
	if l.Type == session.EventText {
		e.hasOutput = e.hasOutput || strings.TrimSpace(l.Text) != ""
		if e.size += len(l.Text); e.size > command.MaxText {
			return command.ErrTooMuchText
		}
	}
	if e.held.Type != l.Type {
		e.flush()
	}
	e.held = agent.Event{Type: l.Type, Text: e.held.Text + l.Text}
	return nil
}

// line takes one line. Its error says why the line is not an event.
func (e *eventLines) line(data []byte) error {
	if e.over() {
		e.logger.Debug("agent's line after its end is ignored", "bytes", len(data))
		return nil
	}
	var l line
	if err := boundedjson.Unmarshal(data, &l); err != nil {
		return fmt.Errorf("it is not a JSON object with an event: %.500s", err.Error())
	}
	if l.Type != session.EventText && l.Type != session.EventThought {
		e.flush()
	}
	l.Input, l.Output = noNull(l.Input), noNull(l.Output)
	switch l.Type {
	case session.EventText, session.EventThought:
		return e.text(l)
	case session.EventToolStart:
		if l.Key != "" {
			e.hasOutput = e.hasOutput || !l.Hidden
			return e.steps.start(l)
		}
		if l.Name == "" || l.CallID == "" {
			return errors.New("a tool_start needs name and call_id")
		}
		e.hasOutput = true
		e.emit(agent.Event{Type: l.Type, Name: l.Name, CallID: l.CallID, Input: l.Input})
	case session.EventToolEnd:
		if err := checkEnd(l); err != nil {
			return err
		}
		if l.Error == "" && l.Output == nil {
			l.Output = json.RawMessage("null") // the tool has finished without output
		}
		if l.Key != "" {
			return e.steps.end(l)
		}
		e.hasOutput = true
		e.emit(agent.Event{Type: l.Type, Name: l.Name, CallID: l.CallID, Output: l.Output, Error: l.Error})
	case session.EventUsage:
		if l.Usage == nil {
			return errors.New("a usage needs the field usage")
		}
		e.emit(agent.Event{Type: l.Type, Usage: l.Usage})
	case session.EventNotice, session.EventTitle:
		if l.Text != "" {
			e.emit(agent.Event{Type: l.Type, Text: l.Text})
		}
	case session.EventRaw:
		e.emit(agent.Event{Type: l.Type, Name: l.Name, Data: l.Data})
	case session.EventState:
		e.emit(agent.Event{Type: l.Type, Data: noNull(l.Data)})
	case lineReady:
		if l.Steers {
			e.steers.announced()
		}
	case lineAsk:
		return e.asks.put(l)
	case lineWait:
		return e.asks.wait(l)
	case lineSteered:
		return e.steers.acknowledged(l.ID)
	case lineResult:
		e.hasOutput = true // an explicit end counts without text, too
		e.result.Text = l.Text
		e.end()
	case lineError:
		if l.Message == "" {
			return errors.New("an error needs a message")
		}
		e.failure = errors.New(l.Message)
		if l.Retryable {
			e.failure = agent.Retryable(e.failure)
		}
		e.end()
	case "":
		return errors.New("it has no type")
	default:
		return fmt.Errorf("unknown type %.100q", l.Type)
	}
	return nil
}

// failed returns the error with which a question or a wait has ended the run, unless the command ended it before.
func (e *eventLines) failed() error {
	if e.ended || e.asks == nil {
		return nil
	}
	return e.asks.failed()
}

// over reports whether later lines do not count.
func (e *eventLines) over() bool { return e.ended || e.failed() != nil }

func (e *eventLines) end() {
	e.ended = true
	e.onEnd()
}

// noNull makes an explicit null an absent value.
func noNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}
