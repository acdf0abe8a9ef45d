package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

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
}

// line takes one line. Its error says why it is no event.
func (e *eventLines) line(data []byte) error {
	if e.ended {
		e.logger.Debug("agent's line after its end is ignored", "bytes", len(data))
		return nil
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
	case agent.EventUsage:
		if l.Usage == nil {
			return errors.New("a usage needs the field usage")
		}
		e.emit(agent.Event{Type: l.Type, Usage: l.Usage})
	case agent.EventNotice:
		if l.Text != "" {
			e.emit(agent.Event{Type: l.Type, Text: l.Text})
		}
	case agent.EventRaw:
		e.emit(agent.Event{Type: l.Type, Name: l.Name, Data: l.Data})
	case agent.EventState:
		e.emit(agent.Event{Type: l.Type, Data: noNull(l.Data)})
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
