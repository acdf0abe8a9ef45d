// Package strictjson reads JSON that people write by hand, where a misspelt field is a
// mistake.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"turnstile/internal/text/boundedjson"
	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// Decode reads one JSON value. It refuses unknown fields and anything after the value. Errors
// wrap session.ErrInvalid, and repeat little of the value.
func Decode(data []byte, into any) error {
	if err := boundedjson.Check(data, into); err != nil {
		return fmt.Errorf("%w JSON: %w", session.ErrInvalid, err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if errors.Is(err, session.ErrInvalid) {
			return &ValueError{short{err}}
		}
		return fmt.Errorf("%w JSON: %w", session.ErrInvalid, short{err})
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("%w JSON: more than one value", session.ErrInvalid)
	}
	return nil
}

// ValueError is the error of a value that refuses its text, such as a duration. It states the rule for
// the value, and wraps session.ErrInvalid.
type ValueError struct{ error }

func (e *ValueError) Unwrap() error { return e.error }

// short is an error with a truncated text: a field's name or a number in it may be as long as the
// value. A name of blanks is cut at a blank.
type short struct{ error }

func (e short) Error() string { return printable.Line(fmt.Sprintf("%.500v", e.error)) }
func (e short) Unwrap() error { return e.error }
