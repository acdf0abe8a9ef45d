package lua

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// construct replaces the named fields of results by lists in the order of RETURNS.
func (p *parts) construct() error { return p.each(p.header.construct) }

func (h Header) construct(code string) (string, error) {
	var out strings.Builder
	for {
		m := constructed.FindStringSubmatchIndex(code)
		if m == nil {
			out.WriteString(code)
			return out.String(), nil
		}
		name, open := code[m[4]:m[5]], m[5]
		result, ours := h.Results[name]
		if !ours {
			out.WriteString(code[:open+1])
			code = code[open+1:]
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
			return "", fmt.Errorf("%s: %w", name, err)
		}
		out.WriteString(code[:m[4]] + text)
		code = code[end:]
	}
}

var (
	constructed = regexp.MustCompile(`(^|[^.\w])([a-z_]+)\{`)
	fieldName   = regexp.MustCompile(`^[a-z_]+$`)
)

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
		if !ok || !fieldName.MatchString(name) || strings.HasPrefix(value, "=") {
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
	for _, name := range r.Fields {
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
