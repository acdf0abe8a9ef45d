package turnlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"turnstile/pkg/session"
)

// stepRecord is a step as the journal has it.
type stepRecord struct {
	State  string          `json:"state"` // started, ended or failed: it may run again
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Turn   string          `json:"turn"`            // the run that started it
	Equal  int             `json:"equal,omitempty"` // how many steps with this name and input came before it
	At     int64           `json:"at"`              // when it started, ms by Redis' clock
	Took   int64           `json:"took,omitempty"`
	Hidden bool            `json:"hidden,omitempty"`
	Named  bool            `json:"named,omitempty"` // the user knows that its end is unknown

	Decision session.Decision `json:"decision,omitempty"` // as in its entry, which a run that begins again does not have
	By       string           `json:"by,omitempty"`
}

// The states of a stored step.
const (
	stepStarted = "started"
	stepEnded   = "ended"
	stepFailed  = "failed"
)

// step is a step of the turn. The record of one that has ended in this run has only that.
type step struct {
	stepRecord
	size int  // of the record as JSON, in the journal; 0: it is not stored
	used bool // in this run

	counted bool // the value that a wait has brought is in steps.bytes
}

// unknown reports whether an earlier run has begun the step, and nobody knows its end. Another version may have
// more states.
func (s step) unknown() bool { return s.size > 0 && s.State != stepEnded && s.State != stepFailed }

// same is equal for steps that do the same.
func same(r stepRecord) string { return r.Name + "\x00" + string(r.Input) }

// encode returns JSON whose parts are the same bytes as before.
func encode(v any) (string, error) {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// canonical returns JSON without the blanks that have no meaning. Text that is none becomes a string.
func canonical(input json.RawMessage) json.RawMessage {
	var text bytes.Buffer
	switch {
	case len(input) == 0:
		return nil
	case json.Compact(&text, input) != nil || tooDeep(input):
		return quoted(input)
	}
	return text.Bytes()
}

// shownOfInput bounds the bytes of an input in an error.
const shownOfInput = 200

func shown(r stepRecord) string {
	text := string(r.Input)
	if len(text) > shownOfInput {
		text = strings.ToValidUTF8(text[:shownOfInput], "") + "..."
	}
	return fmt.Sprintf("%s(%s)", r.Name, text)
}

func validKey(key string) bool {
	return key != "" && len(key) <= stepKeyMost && utf8.ValidString(key) && !strings.ContainsFunc(key, unprintable)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
