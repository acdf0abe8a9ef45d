package gateway

import (
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"unicode"

	"turnstile/internal/protocol/wire"
	"turnstile/internal/text/strictjson"
)

// BadJSON is the problem of a body that could not be decoded. It names the field of the body, but no
// Go type.
func BadJSON(err error) *Problem {
	var value *strictjson.ValueError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &value):
		return because(err, Fail(InvalidRequest, "%s.", err))
	case errors.As(err, &wrong):
		field := fieldOf(wrong)
		p := Fail(InvalidJSON, "%.100s is of the JSON type %.100s; it must be %s.", field, wrong.Value, wanted(wrong.Type))
		p.Fields = []string{field}
		return because(err, p)
	}
	return because(err, Fail(InvalidJSON, "%s", strings.Replace(err.Error(), "json: ", "", 1)))
}

// fieldOf is the path of a field in the body, without the names of structs that Go embeds.
func fieldOf(wrong *json.UnmarshalTypeError) string {
	var names []string
	for name := range strings.SplitSeq(wrong.Field, ".") {
		if name != "" && !unicode.IsUpper(rune(name[0])) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "the body"
	}
	return strings.Join(names, ".")
}

// wanted names the JSON that a type is read from.
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[wire.Duration]() {
		return `a duration such as "90s"`
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() { //nolint:exhaustive // the others are numbers
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map, reflect.Pointer, reflect.Interface:
		return "an object"
	}
	return "a number in its range"
}
