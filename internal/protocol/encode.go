package protocol

import (
	"bytes"
	"encoding/json"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// AgentEvent returns an agent's event as the session's stream has it.
func AgentEvent(turn string, e agent.Event) session.Event {
	return session.Event{
		Type: e.Type, Turn: turn, Text: e.Text, Name: e.Name, CallID: e.CallID,
		Input: e.Input, Output: e.Output, Error: e.Error, Usage: e.Usage, Data: e.Data,
	}
}

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return string(bytes.TrimRight(b.Bytes(), "\n")), nil
}
