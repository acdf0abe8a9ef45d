package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"turnstile/internal/text/printable"
)

// The longest parts of a tool's line, in characters.
const (
	nameLen    = 60
	inputLen   = 80
	failureLen = 200
)

// String returns a tool and its input, such as "tool shell: make test".
func (t tool) String() string {
	text := "tool " + t.name
	if t.input != "" {
		text += ": " + t.input
	}
	return text
}

func toolName(name string) string {
	if name = cut(printable.Line(name), nameLen); name == "" {
		return "without a name"
	}
	return name
}

// took formats a duration. It is not exact, because events are batched before they are sent.
func took(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return "<0.1s"
	case d < 59950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// brief formats a tool's input in at most limit characters: the value of its only field, or its
// fields as k=v.
func brief(input json.RawMessage, limit int) string {
	fields, ok := fieldsOf(input)
	switch {
	case !ok:
		return cut(value(input, limit), limit)
	case len(fields) == 1:
		return cut(value(fields[0].value, limit), limit)
	}
	var parts []string
	for _, f := range fields {
		text := value(f.value, limit*3/4) // so that one field does not hide the others
		if strings.ContainsRune(text, ' ') && !strings.HasPrefix(text, `"`) {
			text = `"` + text + `"`
		}
		parts = append(parts, printable.Line(f.name)+"="+text)
	}
	return cut(strings.Join(parts, " "), limit)
}

// field is a field of a JSON object.
type field struct {
	name  string
	value json.RawMessage
}

// fieldsOf returns the fields of a JSON object in their order.
func fieldsOf(text json.RawMessage) (fields []field, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		t, err := d.Token()
		name, _ := t.(string)
		var v json.RawMessage
		if err != nil || d.Decode(&v) != nil {
			return nil, false
		}
		fields = append(fields, field{name, v})
	}
	return fields, true
}

// value formats a JSON value: a text of one line as it is, all else as JSON.
func value(raw json.RawMessage, limit int) string {
	var s string
	if json.Unmarshal(raw, &s) == nil && strings.IndexFunc(s, unicode.IsControl) < 0 {
		return cut(printable.Line(s), limit)
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.String() == "null" {
		return ""
	}
	return cut(printable.Line(b.String()), limit)
}

// cut truncates a text to limit characters.
func cut(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return strings.TrimRight(string(runes[:limit-1]), " ") + "…"
	}
	return text
}
