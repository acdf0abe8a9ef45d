package engine

import (
	"encoding/json"
	"math"

	"turnstile/pkg/agent"
)

// storable is an event as it can be stored. An agent that takes a tool's output for
// JSON which is none must not lose its turn by it: that is kept as a JSON string.
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
