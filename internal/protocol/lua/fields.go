package lua

import (
	"fmt"
	"regexp"
	"strings"
)

var fieldsCall = regexp.MustCompile(`^fields\(([^,()]+|[^,()]*\([^()]*\)[^,()]*), ('[a-z_]+'(?:, '[a-z_]+')*)\)`)

// readers replaces each call of fields by a function for its list of names, which returns a table
// with these names.
func (p *parts) readers() error {
	var out strings.Builder
	known := map[string]string{}
	err := p.each(func(code string) (string, error) {
		var changed strings.Builder
		from := 0
		for i := range literals(code, "fields(") {
			sub := fieldsCall.FindStringSubmatch(code[i:])
			if sub == nil || i < from || i > 0 && word(code[i-1]) {
				continue
			}
			list := sub[2]
			if known[list] == "" {
				known[list] = fmt.Sprintf("fields_%d", len(known)+1)
				var table []string
				for i, quoted := range strings.Split(list, ", ") {
					table = append(table, fmt.Sprintf("%s = v[%d]", strings.Trim(quoted, "'"), i+1))
				}
				fmt.Fprintf(&out, "local function %s(key)\n  local v = call('HMGET', key, %s)\n  return {%s}\nend\n",
					known[list], list, strings.Join(table, ", "))
			}
			changed.WriteString(code[from:i] + known[list] + "(" + sub[1] + ")")
			from = i + len(sub[0])
		}
		changed.WriteString(code[from:])
		return changed.String(), nil
	})
	p.read = out.String()
	return err
}

var readOnce = regexp.MustCompile(`^( *)local ([a-z]+) = fields\(([^,()]+), ('[a-z_]+'(?:, '[a-z_]+')*)\)$`)

// scalars replaces the table of a hash by locals, which cost less, if the code uses only the
// table's fields. It does so in functions that read one hash, and for run and record of a move.
func (p *parts) scalars() error {
	for i, f := range p.functions {
		if strings.Count(f.text, "= fields(") == 1 {
			p.functions[i].text = scalars(f.text, func(string, string) bool { return true })
		}
	}
	p.body = scalars(p.body, func(indent, name string) bool { return indent == "" && (name == "run" || name == "record") })
	return nil
}

func scalars(code string, chosen func(indent, name string) bool) string {
	for line := range strings.Lines(code) {
		if !strings.Contains(line, " = fields(") {
			continue
		}
		line = strings.TrimSuffix(line, "\n")
		m := readOnce.FindStringSubmatch(line)
		if m == nil || !chosen(m[1], m[2]) || alone(bare(strings.Replace(code, line, "", 1)), m[2]) {
			continue
		}
		indent, name, key, list := m[1], m[2], m[3], m[4]
		var locals, values []string
		for i, field := range strings.Split(list, ", ") {
			locals = append(locals, name+"_"+strings.Trim(field, "'"))
			values = append(values, fmt.Sprintf("v[%d]", i+1))
		}
		read := fmt.Sprintf("%slocal v = call('HMGET', %s, %s)\n%slocal %s = %s", indent, key, list,
			indent, strings.Join(locals, ", "), strings.Join(values, ", "))
		code = flat(strings.Replace(code, line, read, 1), name)
	}
	return code
}

// alone reports whether code uses a table other than for its fields.
func alone(code, table string) bool {
	for i := range literals(code, table) {
		end := i + len(table)
		if begins(code, i) && (end == len(code) || code[end] != '.' && !word(code[end])) {
			return true
		}
	}
	return false
}
