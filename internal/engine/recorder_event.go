package engine

import (
	"encoding/json"
	"fmt"
	"math"

	"turnstile/pkg/agent"
)

// maxRaw is the largest data of a raw event that is passed on, in bytes.
const maxRaw = 64 << 10

// storable makes an event fit to be stored. Invalid JSON becomes a JSON string, so that the
// agent's mistake does no harm. A raw event loses data that is too long for the stream.
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

// quoted returns text as a JSON string, with bytes that are not UTF-8 replaced.
func quoted(text []byte) json.RawMessage {
	raw, err := json.Marshal(string(text))
	if err != nil {
		return json.RawMessage(`""`) // encoding a string cannot fail
	}
	return raw
}
