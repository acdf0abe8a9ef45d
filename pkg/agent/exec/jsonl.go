package exec

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"unicode/utf8"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// The lines beside the events of package agent.
const (
	lineReady   agent.EventType = "ready"   // steers
	lineSteered agent.EventType = "steered" // id
	lineResult  agent.EventType = "result"  // text; ends the turn
	lineError   agent.EventType = "error"   // message, retryable; ends the turn
)

type line struct {
	agent.Event
	Steers    bool   `json:"steers"`
	ID        string `json:"id"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// eventLines passes a command's lines on as events.
type eventLines struct {
	emit    func(agent.Event)
	logger  *slog.Logger
	steers  *steering
	onEnd   func()       // called at the first line that ends the turn
	ended   bool         // it has come
	result  agent.Result // it was a result
	failure error        // it was an error
	cut     bool         // the last line came without its newline
}

// copyFrom returns an error for a line that is no event.
func (e *eventLines) copyFrom(r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: MaxOutput + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 16<<10), MaxLine+1)
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		e.cut = atEOF && len(data) > 0 && bytes.IndexByte(data, '\n') < 0
		return bufio.ScanLines(data, atEOF)
	})
	n := 0
	for lines.Scan() {
		n++
		if limited.N <= 0 {
			break
		}
		if err := e.line(lines.Bytes()); err != nil {
			return fmt.Errorf("line %d of the command's output: %w", n, err)
		}
	}
	switch {
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return fmt.Errorf("line %d of the command's output is longer than %d MiB", n+1, MaxLine>>20)
	case limited.N <= 0:
		return fmt.Errorf("the command wrote more than %d MiB", MaxOutput>>20)
	case lines.Err() != nil:
		return fmt.Errorf("read the command's output: %w", lines.Err())
	}
	return nil
}

func (e *eventLines) line(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return nil
	}
	if e.ended {
		e.logger.Debug("agent's line after its end is ignored", "bytes", len(data))
		return nil
	}
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return fmt.Errorf("it is not a JSON object with an event: %w", err)
	}
	l.Input, l.Output = noNull(l.Input), noNull(l.Output)
	switch l.Type {
	case agent.EventText, agent.EventThought:
		if l.Text != "" {
			e.emit(agent.Event{Type: l.Type, Text: l.Text})
		}
	case agent.EventToolStart:
		if l.Name == "" || l.CallID == "" {
			return errors.New("a tool_start needs name and call_id")
		}
		e.emit(agent.Event{Type: l.Type, Name: l.Name, CallID: l.CallID, Input: l.Input})
	case agent.EventToolEnd:
		if l.CallID == "" {
			return errors.New("a tool_end needs the call_id of its tool_start")
		}
		if l.Error != "" && l.Output != nil {
			return errors.New("a tool_end has an output or an error, not both")
		}
		if l.Error == "" && l.Output == nil {
			l.Output = json.RawMessage("null") // it has finished, and says nothing
		}
		e.emit(agent.Event{Type: l.Type, Name: l.Name, CallID: l.CallID, Output: l.Output, Error: l.Error})
	case agent.EventTitle:
		if title := session.CleanTitle(l.Text); title != "" {
			e.emit(agent.Event{Type: l.Type, Text: title})
		}
	case lineReady:
		if l.Steers {
			e.steers.announced()
		}
	case lineSteered:
		return e.steers.acknowledged(l.ID)
	case lineResult:
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
		return fmt.Errorf("unknown type %q", l.Type)
	}
	return nil
}

func (e *eventLines) end() {
	e.ended = true
	e.onEnd()
}

// noNull makes of an explicit null an absent value.
func noNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}
