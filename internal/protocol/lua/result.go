package lua

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// construct replaces the named fields of results by lists in the order of RETURNS.
func (p *parts) construct() (err error) {
	p.each(func(code string) string {
		text, failed := p.header.construct(code)
		err = errors.Join(err, failed)
		return text
	})
	return err
}

var tableOf = regexp.MustCompile(`(?:^|[^.\w])([a-z_]+)\{`)

func (h Header) construct(code string) (string, error) {
	var out strings.Builder
	from := 0
	for _, at := range tableOf.FindAllStringSubmatchIndex(code, -1) {
		start, open := at[2], at[3]
		result, ours := h.Results[code[start:open]]
		if open < from || !ours {
			continue
		}
		list, err := elements(code[open:])
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
		from = open + parenthesized(code[open:])
	}
	out.WriteString(code[from:])
	return out.String(), nil
}

var element = regexp.MustCompile(`(?s)^([a-z_]+)\s*=\s*([^=\s].*)$`)

// elements returns the name = value pairs of the table at the beginning of code.
func elements(code string) (map[string]string, error) {
	list := map[string]string{}
	for _, text := range arguments(code[1 : parenthesized(code)-1]) {
		if text == "" {
			continue
		}
		m := element.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("no name = value: %q", text)
		}
		list[m[1]] = m[2]
	}
	return list, nil
}

// table returns a result as Lua text. Fields at its end may be missing.
func (r Result) table(list map[string]string) (string, error) {
	var values []string
	if r.Status != "" {
		values = append(values, "'"+r.Status+"'")
	}
	missing := ""
	for _, field := range r.Fields {
		value, given := list[field.Name]
		if !given {
			missing = field.Name
			continue
		}
		if missing != "" {
			return "", fmt.Errorf("%s is missing before %s", missing, field.Name)
		}
		values = append(values, value)
		delete(list, field.Name)
	}
	for name := range list {
		return "", fmt.Errorf("there is no field %s", name)
	}
	return "{" + strings.Join(values, ", ") + "}", nil
}
