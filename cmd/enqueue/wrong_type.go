package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"turnstile/pkg/session"
)

// wrongType names the field of a line that has a value of the wrong type, and the right type. Other
// errors are returned unchanged.
func wrongType(line []byte, err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return err
	}
	field, must := wrong.Field, "a string"
	switch {
	case wrong.Type == reflect.TypeFor[session.Duration](), wrong.Type == reflect.TypeFor[*session.Duration]():
		must = `a string, such as "10s"`
	case wrong.Type.Kind() == reflect.Map, wrong.Type.Kind() == reflect.Struct:
		must = "an object"
	case wrong.Type.Kind() == reflect.Slice:
		must = "a list"
	case wrong.Type.Kind() == reflect.Int64:
		must = "a whole number"
	case wrong.Field == "meta": // the decoder names the map, not the key
		field = "meta." + notString(line)
	}
	return fmt.Errorf("%w JSON: %q must be %s", session.ErrInvalid, field, must)
}

// shownKey is how many bytes of a key an error shows.
const shownKey = 100

// notString is the first key of a line's meta whose value is not a string.
func notString(line []byte) string {
	var fields struct {
		Meta map[string]json.RawMessage `json:"meta"`
	}
	_ = json.Unmarshal(line, &fields) // the line is JSON: the strict decoder has read as far as meta
	var wrong []string
	for key, value := range fields.Meta {
		var text string
		if json.Unmarshal(value, &text) != nil {
			wrong = append(wrong, key)
		}
	}
	if len(wrong) == 0 || len(slices.Min(wrong)) > shownKey {
		return "KEY"
	}
	return slices.Min(wrong)
}
