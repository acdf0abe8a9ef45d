package turnlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"unicode/utf8"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// maxRaw is the largest data of a raw event that is passed on, in bytes.
const maxRaw = 64 << 10

// maxDepth is how deeply the JSON of an event may be nested. Decoders have limits, and an event stands
// within other JSON.
const maxDepth = 1000

// storable returns an event that can be stored. JSON that is invalid or nested too deeply becomes a
// JSON string. A raw event loses data that is too long for the stream.
func storable(e agent.Event) agent.Event {
	for _, raw := range []*json.RawMessage{&e.Input, &e.Output, &e.Data} {
		if len(*raw) == 0 {
			*raw = nil
		} else if !json.Valid(*raw) || tooDeep(*raw) {
			*raw = quoted(*raw)
		} else if !utf8.Valid(*raw) { // in a string of it
			*raw = bytes.ToValidUTF8(*raw, []byte("\uFFFD"))
		}
	}
	if u := e.Usage; u != nil && (math.IsNaN(u.CostUSD) || math.IsInf(u.CostUSD, 0)) {
		known := *u
		known.CostUSD = 0
		e.Usage = &known
	}
	if e.Type == session.EventRaw && len(e.Data) > maxRaw {
		e.Text, e.Data = fmt.Sprintf("%d bytes are left out", len(e.Data)), nil
	}
	return e
}

// isAgents reports whether an agent may emit events of this type. Others would let it end its own
// turn for followers, or ask what nobody can decide.
func isAgents(t session.EventType) bool {
	switch t {
	case session.EventText, session.EventThought, session.EventToolStart, session.EventToolEnd, session.EventTitle,
		session.EventUsage, session.EventNotice, session.EventRaw, session.EventState:
		return true
	}
	return false
}

// streamed returns an agent's event as the session's stream has it.
func streamed(turn string, e agent.Event) session.Event {
	return session.Event{
		Type: e.Type, Turn: turn, Text: e.Text, Name: e.Name, CallID: e.CallID,
		Input: e.Input, Output: e.Output, Error: e.Error, Usage: e.Usage, Data: e.Data, Client: e.Client,
	}
}

// tooDeep reports whether valid JSON is nested more deeply than maxDepth.
func tooDeep(raw []byte) bool {
	depth, text := 0, false
	for i := 0; i < len(raw) && depth <= maxDepth; i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		}
	}
	return depth > maxDepth
}

// quoted returns text as a JSON string, with bytes that are not UTF-8 replaced.
func quoted(text []byte) json.RawMessage {
	raw, err := json.Marshal(string(text))
	if err != nil {
		return json.RawMessage(`""`) // encoding a string cannot fail
	}
	return raw
}
