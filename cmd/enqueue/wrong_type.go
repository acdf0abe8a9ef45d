package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"turnstile/internal/chat/slash"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

var errNoObject = fmt.Errorf("%w JSON: the line must be a JSON object", session.ErrInvalid)

// lineError explains the decoder's error about a line of JSON in terms of the file.
func lineError(line []byte, err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return errNoObject
	case errors.As(err, &wrong):
		return wrongType(line, wrong)
	}
	if _, name, ok := strings.Cut(err.Error(), "json: unknown field "); ok { // the decoder has no type for it
		return fmt.Errorf("%w JSON: unknown field %s%s", session.ErrInvalid, name, suggestion(name))
	}
	return err
}

// suggestion is the known field that a quoted name probably means.
func suggestion(name string) string {
	name, _ = strconv.Unquote(name)
	for _, of := range []reflect.Type{reflect.TypeFor[fields](), reflect.TypeFor[session.Attachment]()} {
		for field := range of.Fields() {
			known, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if slash.Mistyped(strings.ToLower(name), known) {
				return fmt.Sprintf(": did you mean %q?", known)
			}
		}
	}
	return ""
}

// wrongType names the field of a line that has a value of the wrong type, and the right type.
func wrongType(line []byte, wrong *json.UnmarshalTypeError) error {
	field, must := wrong.Field, "a string"
	switch {
	case wrong.Type == reflect.TypeFor[session.Attachment]():
		must = "a list of objects"
	case wrong.Type == reflect.TypeFor[wire.Duration](), wrong.Type == reflect.TypeFor[*wire.Duration]():
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

// notString is the first key of a line's meta with a value that is not a string.
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
