// Package boundedjson decodes JSON from outside without taking much more memory than its text.
//
// The Go value of a list can be many times as large as its text: an empty object of two bytes becomes a
// struct of a hundred. So a document's elements are counted before they are decoded. Text that stays
// text, such as a json.RawMessage, has no elements.
package boundedjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
)

// The bound of elements in all lists and objects of a document: a few, and one more for this many bytes.
const few, bytesEach = 10_000, 64

// ErrTooMany is the error about a document with too many elements for its size.
var ErrTooMany = errors.New("its lists and objects have too many elements")

// Unmarshal is json.Unmarshal for text from outside. It returns ErrTooMany without decoding.
func Unmarshal(data []byte, into any) error {
	if err := Check(data, into); err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// Check returns ErrTooMany if decoding data into a value of this type would make too many elements of
// slices, maps and interfaces. Invalid JSON is no error here: decoding it fails.
func Check(data []byte, into any) error {
	if marks := bytes.Count(data, []byte{','}) + bytes.Count(data, []byte{'['}) + bytes.Count(data, []byte{'{'}); marks < few {
		return nil // each element follows one of them
	}
	c := counter{dec: json.NewDecoder(bytes.NewReader(data)), left: few + len(data)/bytesEach}
	c.dec.UseNumber()
	if err := c.value(reflect.TypeOf(into)); errors.Is(err, ErrTooMany) {
		return err
	}
	return nil
}

// counter reads a document together with its type.
type counter struct {
	dec  *json.Decoder
	left int
}

// value reads one value, which is decoded into a t.
func (c *counter) value(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !hasElements(t) {
		var skipped json.RawMessage
		return c.dec.Decode(&skipped)
	}
	begin, err := c.dec.Token()
	if err != nil {
		return err
	}
	switch begin {
	case json.Delim('['):
		err = c.elements(elementOf(t, reflect.Slice, reflect.Array))
	case json.Delim('{'):
		err = c.members(t)
	default: // a text, a number, true, false or null
		return nil
	}
	if err == nil {
		_, err = c.dec.Token() // the end
	}
	return err
}

func (c *counter) elements(t reflect.Type) error {
	for c.dec.More() {
		if err := c.element(t); err != nil {
			return err
		}
	}
	return nil
}

func (c *counter) members(t reflect.Type) error {
	var fields []field
	each := elementOf(t, reflect.Map)
	if t.Kind() == reflect.Struct {
		fields = fieldsOf(t)
	}
	for c.dec.More() {
		name, err := c.dec.Token()
		if err != nil {
			return err
		}
		if t := fieldType(fields, name); t != unused {
			err = c.value(t)
		} else {
			err = c.element(each)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// element counts a value, and reads it. It also counts skipped values, because they take time.
func (c *counter) element(t reflect.Type) error {
	if c.left--; c.left < 0 {
		return ErrTooMany
	}
	return c.value(t)
}

// unused is the type of skipped values, from which json.Unmarshal makes nothing.
var unused = reflect.TypeFor[bool]()

// anything is the type of values that are decoded into an interface.
var anything = reflect.TypeFor[any]()

// elementOf returns the type of a value's elements if it is of one of these kinds.
func elementOf(t reflect.Type, kinds ...reflect.Kind) reflect.Type {
	if t.Kind() == reflect.Interface || implements[json.Unmarshaler](t) {
		return anything // the most that can be made of it
	}
	for _, kind := range kinds {
		if t.Kind() == kind {
			return t.Elem()
		}
	}
	return unused
}

// hasElements reports whether decoding into a t may make elements.
func hasElements(t reflect.Type) bool {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return false
	case implements[json.Unmarshaler](t):
		return true
	case implements[encoding.TextUnmarshaler](t):
		return false
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Interface:
		return true
	default:
		return false
	}
}

func implements[I any](t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[I]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}

// field is a field of a struct, by its name in JSON.
type field struct {
	name string
	typ  reflect.Type
}

// fieldType returns the type of the field into which json.Unmarshal decodes a member, whatever the
// case of its name.
func fieldType(fields []field, name json.Token) reflect.Type {
	text, _ := name.(string)
	found := unused
	for _, f := range fields {
		if f.name == text {
			return f.typ
		}
		if strings.EqualFold(f.name, text) {
			found = f.typ
		}
	}
	return found
}

// known has the result of fieldsOf for each type.
var known sync.Map

// fieldsOf returns a struct's fields, those of embedded structs included.
func fieldsOf(t reflect.Type) []field {
	if fields, ok := known.Load(t); ok {
		return fields.([]field)
	}
	var all []field
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		typ := f.Type
		for f.Anonymous && typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		switch {
		case name == "-":
		case f.Anonymous && name == "" && typ.Kind() == reflect.Struct:
			all = append(all, fieldsOf(typ)...)
		case f.IsExported() && name == "":
			all = append(all, field{f.Name, typ})
		case f.IsExported():
			all = append(all, field{name, typ})
		}
	}
	known.Store(t, all)
	return all
}
