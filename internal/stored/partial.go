package stored

import (
	"encoding/json"

	"turnstile/pkg/session"
)

// partialVersion is the schema version of a Partial. lua/claim.lua of
// internal/protocol knows it, too.
const partialVersion = 1

// Partial is what a running turn has done so far, stored beside its session should
// the turn be cut off. The turn's end removes it.
type Partial struct {
	Fence    int64           // of the turn
	Turn     string          // its id
	Messages []string        // ids of the messages that it was taken for, the first one first
	Entries  []session.Entry // what it would have added to the transcript by now
}

// storedPartial has its entries as text, which the claim script can append to a
// transcript as they are.
type storedPartial struct {
	V        int      `json:"v"`
	Fence    int64    `json:"fence"`
	Turn     string   `json:"turn"`
	Messages []string `json:"messages"`
	Entries  []string `json:"entries"`
}

// Encode is the partial as it is stored.
func (p Partial) Encode() (string, error) {
	s := storedPartial{V: partialVersion, Fence: p.Fence, Turn: p.Turn, Messages: p.Messages, Entries: make([]string, len(p.Entries))}
	for i, e := range p.Entries {
		var err error
		if s.Entries[i], err = EncodeEntry(e); err != nil {
			return "", err
		}
	}
	return Encode(s)
}

// DecodePartial reads a stored partial. What cannot be read, is of another version
// or is empty must not stop a session: ok is false, as if there were none.
func DecodePartial(text string) (p Partial, ok bool) {
	var s storedPartial
	if json.Unmarshal([]byte(text), &s) != nil || s.V != partialVersion || len(s.Entries) == 0 || len(s.Messages) == 0 {
		return Partial{}, false
	}
	return Partial{Fence: s.Fence, Turn: s.Turn, Messages: s.Messages, Entries: DecodeEntries(s.Entries)}, true
}
