package script

import (
	"strconv"
	"time"
)

// Result is a script's result: a list, or a single value as a list of one. A field that is missing
// or of another kind reads as its zero value, because a script of another version may return more
// fields or fewer.
type Result []any

func resultOf(reply any) Result {
	if list, ok := reply.([]any); ok {
		return list
	}
	return Result{reply}
}

// Text is field i as text.
func (r Result) Text(i int) string {
	if i < len(r) {
		if s, ok := r[i].(string); ok {
			return s
		}
	}
	return ""
}

// Int is field i as a whole number; Lua returns large ones as text.
func (r Result) Int(i int) int64 {
	if i >= len(r) {
		return 0
	}
	switch v := r[i].(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

// Yes reports whether the result is the number 1.
func (r Result) Yes() bool { return r.Bool(0) }

// Bool reports whether field i is the number 1.
func (r Result) Bool(i int) bool { return r.Int(i) == 1 }

// Millis is field i as a duration; the script returns milliseconds.
func (r Result) Millis(i int) time.Duration { return time.Duration(r.Int(i)) * time.Millisecond }

// List is field i as a list.
func (r Result) List(i int) Result {
	if i < len(r) {
		if l, ok := r[i].([]any); ok {
			return l
		}
	}
	return nil
}

// Number reads a number that Redis stores as text. Anything else is 0.
func Number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
