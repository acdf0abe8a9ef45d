package protocol

import (
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/session"
)

// partialVersion is the schema version of a Partial.
const partialVersion = 1

// Partial is what a turn has done so far, as workers of the version before store and read it. It goes away
// with the version after the next.
type Partial struct {
	Fence    int64           // the turn's fencing token
	Turn     string          // the turn's ID
	Messages []string        // the IDs of its messages, oldest first
	Entries  []session.Entry // its entries so far
}

// storedPartial has the entries as text, so that the claim script can append them to a transcript
// unchanged.
type storedPartial struct {
	V        int      `json:"v"`
	Fence    int64    `json:"fence"`
	Turn     string   `json:"turn"`
	Messages []string `json:"messages"`
	Entries  []string `json:"entries"`
}

// encode returns the partial as it is stored.
func (p Partial) encode() (string, error) {
	s := storedPartial{V: partialVersion, Fence: p.Fence, Turn: p.Turn, Messages: p.Messages, Entries: make([]string, len(p.Entries))}
	for i, e := range p.Entries {
		var err error
		if s.Entries[i], err = marshal(e); err != nil {
			return "", err
		}
	}
	return marshal(s)
}

// partial encodes the entries of a turn so far; "" if there are none.
func (c *Claim) partial(entries []session.Entry) (string, error) {
	if len(entries) == 0 {
		return "", nil
	}
	entries = c.consumer.bounded(entries)
	c.mu.Lock()
	p := Partial{Fence: c.turn.Fence, Turn: c.turn.ID, Messages: ids(c.part), Entries: entries}
	c.mu.Unlock()
	return p.encode()
}

// DecodePartial reads a stored partial. ok is false if it cannot be read, has another
// version or is empty.
func DecodePartial(text string) (p Partial, ok bool) {
	var s storedPartial
	if boundedjson.Unmarshal([]byte(text), &s) != nil || s.V != partialVersion || len(s.Entries) == 0 || len(s.Messages) == 0 {
		return Partial{}, false
	}
	return Partial{Fence: s.Fence, Turn: s.Turn, Messages: s.Messages, Entries: DecodeEntries(s.Entries)}, true
}
