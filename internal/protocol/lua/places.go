package lua

import (
	"iter"
	"strings"
)

// The text is searched by hand, not by regular expressions: these look at each byte several times, and
// every process composes the scripts that it calls before it does anything else.

// literals returns where a text stands in code.
func literals(code, text string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for from := 0; ; {
			i := strings.Index(code[from:], text)
			if i < 0 || !yield(from+i) {
				return
			}
			from += i + len(text)
		}
	}
}

// nameUntil returns where the name begins that ends before code[end]. ok is false if there is none, or
// if it is part of a longer word.
func nameUntil(code string, end int) (start int, ok bool) {
	for start = end; start > 0 && lower(code[start-1]); {
		start--
	}
	return start, start < end && (start == 0 || !word(code[start-1]))
}

// nameFrom returns the end of the name that begins at code[start].
func nameFrom(code string, start int) (end int) {
	for end = start; end < len(code) && lower(code[end]); {
		end++
	}
	return end
}

// begins reports whether a word may begin at code[i] that is no field's name.
func begins(code string, i int) bool { return i == 0 || code[i-1] != '.' && !word(code[i-1]) }

func lower(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' }

// fieldsOf returns the fields that code reads of a table, with the places of table.field.
func fieldsOf(code, table string) iter.Seq2[[2]int, string] {
	return func(yield func([2]int, string) bool) {
		for i := range literals(code, table+".") {
			name := i + len(table) + 1
			end := nameFrom(code, name)
			if begins(code, i) && end > name && !yield([2]int{i, end}, code[name:end]) {
				return
			}
		}
	}
}

// flat replaces the fields of a table by locals: table.field by table_field.
func flat(code, table string) string {
	var out strings.Builder
	from := 0
	for at, field := range fieldsOf(code, table) {
		out.WriteString(code[from:at[0]])
		out.WriteString(table + "_" + field)
		from = at[1]
	}
	out.WriteString(code[from:])
	return out.String()
}

// sessionCalls returns the functions that code calls with the session as their first argument, with the
// places of the name and of what stands behind "(s".
func sessionCalls(code string) iter.Seq2[[2]int, string] {
	return func(yield func([2]int, string) bool) {
		for i := range literals(code, "(s") {
			rest := code[i+2:]
			if !strings.HasPrefix(rest, ", ") && !strings.HasPrefix(rest, ")") {
				continue
			}
			if start, ok := nameUntil(code, i); ok && !yield([2]int{start, i + 2}, code[start:i]) {
				return
			}
		}
	}
}
