// Package strictjson reads JSON that people write by hand, where a misspelt field is a
// mistake.
package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"turnstile/pkg/session"
)

// Decode reads one JSON value. It refuses unknown fields and anything after the value. Errors
// wrap session.ErrInvalid.
func Decode(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%w JSON: %w", session.ErrInvalid, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("%w JSON: more than one value", session.ErrInvalid)
	}
	return nil
}
