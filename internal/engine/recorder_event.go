package engine

import (
	"encoding/json"
	"fmt"
	"math"

	"turnstile/pkg/agent"
)

// maxRaw is how many bytes of an agent's own event are passed on.
const maxRaw = 64 << 10

// storable is an event as it can be stored. A tool's output that should be JSON and is
// not becomes a JSON string, which costs the agent nothing. A raw event loses data
// that is too long for the stream.
func storable(e agent.Event) agent.Event {
	for _, raw := range []*json.RawMessage{&e.Input, &e.Output, &e.Data} {
		if len(*raw) == 0 {
			*raw = nil
		} else if !json.Valid(*raw) {
			*raw = quoted(*raw)
		}
	}
	if u := e.Usage; u != nil && (math.IsNaN(u.CostUSD) || math.IsInf(u.CostUSD, 0)) {
		known := *u
		known.CostUSD = 0
		e.Usage = &known
	}
	if e.Type == agent.EventRaw && len(e.Data) > maxRaw {
		e.Text, e.Data = fmt.Sprintf("%d bytes are left out", len(e.Data)), nil
	}
	return e
}

// quoted is a text as JSON; bytes that are not UTF-8 are replaced.
func quoted(text []byte) json.RawMessage {
	raw, err := json.Marshal(string(text))
	if err != nil {
		return json.RawMessage(`""`) // no string fails
	}
	return raw
}
