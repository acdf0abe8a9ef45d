package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"turnstile/internal/text/boundedjson"
	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// The most names of an UnknownFieldsError, and the most characters of each.
const maxNames, maxName = 20, 100

// UnknownFieldsError is the error about the fields of a value that its type does not have: all, or the
// first 20. It wraps session.ErrInvalid.
type UnknownFieldsError struct{ Names []string } // as text, or attachments[0].name; printable

func (e *UnknownFieldsError) Error() string {
	return fmt.Sprintf("%v JSON: unknown fields %s", session.ErrInvalid, strings.Join(e.Names, ", "))
}

func (e *UnknownFieldsError) Unwrap() error { return session.ErrInvalid }

// DecodeNamed is like Decode, but names all unknown fields in an UnknownFieldsError. A name in
// another case is unknown. It refuses JSON that programs read differently: a name that an object has
// twice, and text that is not UTF-8.
func DecodeNamed(data []byte, into any) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("%w JSON: it is not UTF-8", session.ErrInvalid)
	}
	if !json.Valid(data) {
		var value json.RawMessage
		if err := Decode(data, &value); err != nil {
			return err
		}
	}
	if err := boundedjson.Check(data, into); err != nil {
		return fmt.Errorf("%w JSON: %w", session.ErrInvalid, err)
	}
	w := walk{text: data}
	w.value(reflect.TypeOf(into), "")
	if w.twice != "" {
		return fmt.Errorf("%w JSON: %.100q occurs twice", session.ErrInvalid, w.twice)
	}
	if names := w.unknown; len(names) > 0 {
		slices.Sort(names)
		names = names[:min(len(names), maxNames)]
		for i, name := range names {
			if names[i] = fmt.Sprintf("%.*s", maxName, name); name == "" || names[i] != printable.Line(names[i]) {
				names[i] = strconv.Quote(names[i])
			}
		}
		return &UnknownFieldsError{names}
	}
	return Decode(data, into)
}

// walk reads valid JSON together with its type.
type walk struct {
	text    []byte
	at      int
	unknown []string
	twice   string // the first name that an object has twice
}

// value reads one value. path is its name. A value for which t has no fields is skipped.
func (w *walk) value(t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	w.blank()
	switch c := w.text[w.at]; {
	case c == '{' && t.Kind() == reflect.Struct && !readsItself(t):
		w.object(fieldsOf(t), nil, path)
	case c == '{' && t.Kind() == reflect.Map && !readsItself(t):
		w.object(nil, t.Elem(), path)
	case c == '[' && t.Kind() == reflect.Slice && !readsItself(t):
		w.at++
		for i := 0; w.more(']'); i++ {
			w.value(t.Elem(), path+"["+strconv.Itoa(i)+"]")
		}
	default:
		w.skip()
	}
}

// object reads an object with these fields, or a map with values of the type each.
func (w *walk) object(fields map[string]reflect.Type, each reflect.Type, path string) {
	w.at++
	var seen []string
	var many map[string]bool // in place of seen
	for w.more('}') {
		name := w.name()
		if again := slices.Contains(seen, name) || many[name]; again && w.twice == "" {
			w.twice = join(path, name)
		}
		if seen = append(seen, name); len(seen) > maxNames {
			if many == nil {
				many = map[string]bool{}
			}
			for _, s := range seen {
				many[s] = true
			}
			seen = seen[:0]
		}
		w.blank()
		w.at++ // the colon
		t, known := fields[name]
		switch {
		case each != nil:
			w.value(each, join(path, name))
		case known && leaf(t):
			w.skip()
		case known:
			w.value(t, join(path, name))
		default:
			w.unknown = append(w.unknown, join(path, name))
			w.skip()
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// more moves to the next element. At the end of the list it reads the end and returns false.
func (w *walk) more(end byte) bool {
	w.blank()
	switch w.text[w.at] {
	case end:
		w.at++
		return false
	case ',':
		w.at++
		w.blank()
	}
	return true
}

// name reads the name of a field.
func (w *walk) name() string {
	start := w.at
	w.skip()
	quoted := w.text[start:w.at]
	if !slices.Contains(quoted, '\\') {
		return string(quoted[1 : len(quoted)-1])
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // it is valid
	return name
}

func (w *walk) blank() {
	for w.at < len(w.text) && strings.IndexByte(" \t\r\n", w.text[w.at]) >= 0 {
		w.at++
	}
}

// skip reads a value, whatever it is.
func (w *walk) skip() {
	w.blank()
	for depth := 0; w.at < len(w.text); {
		switch c := w.text[w.at]; c {
		case '"':
			w.quoted()
		case '{', '[':
			depth++
			w.at++
		case '}', ']':
			if depth == 0 {
				return // the end of the surrounding value
			}
			depth--
			w.at++
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return
			}
			w.at++
			continue
		default: // a part of a number, true, false, null, or a colon
			w.at++
			continue
		}
		if depth == 0 {
			return
		}
	}
}

// quoted reads a string.
func (w *walk) quoted() {
	for w.at++; w.text[w.at] != '"'; w.at++ {
		if w.text[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
}

// leaf reports whether values of a type have no fields to check.
func leaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Pointer:
		return false
	default:
		return true
	}
}

// readsItself reports whether a type reads its own form of JSON.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fields has the result of fieldsOf for each type.
var fields sync.Map

// fieldsOf returns the types of a struct's fields by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := fields.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	all := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			for inner, typ := range fieldsOf(f.Type) {
				all[inner] = typ
			}
		case f.IsExported() && name != "-" && name != "":
			all[name] = f.Type
		}
	}
	fields.Store(t, all)
	return all
}
