package lua

import (
	"errors"
	"fmt"
	"strings"
)

// construct replaces the named fields of results by lists in the order of RETURNS.
func (p *parts) construct() error { return p.each(p.header.construct) }

func (h Header) construct(code string) (string, error) {
	var out strings.Builder
	from := 0
	for open := range literals(code, "{") {
		start, ok := nameUntil(code, open)
		result, ours := h.Results[code[start:open]]
		if open < from || !ok || !ours || !begins(code, start) {
			continue
		}
		list, end, err := elements(code, open)
		for field, value := range list {
			if err == nil {
				list[field], err = h.construct(value)
			}
		}
		if err != nil {
			return "", err
		}
		text, err := result.table(list)
		if err != nil {
			return "", fmt.Errorf("%s: %w", code[start:open], err)
		}
		out.WriteString(code[from:start] + text)
		from = end
	}
	out.WriteString(code[from:])
	return out.String(), nil
}

// elements returns the name = value pairs of the table that opens at code[open], and where it ends.
func elements(code string, open int) (list map[string]string, end int, err error) {
	list = map[string]string{}
	depth, from := 0, open+1
	add := func(to int) error {
		text := strings.TrimSpace(code[from:to])
		if from = to + 1; text == "" {
			return nil
		}
		name, value, ok := strings.Cut(text, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" || nameFrom(name, 0) < len(name) || strings.HasPrefix(value, "=") {
			return fmt.Errorf("no name = value: %q", text)
		}
		list[name] = strings.TrimSpace(value)
		return nil
	}
	for i := open; i < len(code); i++ {
		switch c := code[i]; c {
		case '\'', '"':
			for i++; i < len(code) && code[i] != c; i++ {
				if code[i] == '\\' {
					i++
				}
			}
		case '{', '(', '[':
			depth++
		case '}', ')', ']':
			if depth--; depth == 0 {
				return list, i + 1, add(i)
			}
		case ',':
			if depth == 1 {
				if err := add(i); err != nil {
					return nil, 0, err
				}
			}
		}
	}
	return nil, 0, errors.New("a table has no end")
}

// table returns a result as Lua text. Fields at its end may be missing.
func (r Result) table(list map[string]string) (string, error) {
	var values []string
	if r.Status != "" {
		values = append(values, "'"+r.Status+"'")
	}
	missing := ""
	for _, field := range r.Fields {
		name := field.Name
		value, given := list[name]
		if !given {
			missing = name
			continue
		}
		if missing != "" {
			return "", fmt.Errorf("%s is missing before %s", missing, name)
		}
		values = append(values, value)
		delete(list, name)
	}
	for name := range list {
		return "", fmt.Errorf("there is no field %s", name)
	}
	return "{" + strings.Join(values, ", ") + "}", nil
}
