package lua

import (
	"fmt"
	"regexp"
	"strings"
)

var fieldsCall = regexp.MustCompile(`\bfields\(([^,()]+|[^,()]*\([^()]*\)[^,()]*), ('[a-z_]+'(?:, '[a-z_]+')*)\)`)

// readers replaces each call of fields by a function for its list of names, which returns a table
// with these names.
func (p *parts) readers() error {
	var out strings.Builder
	known := map[string]string{}
	p.each(func(code string) string {
		return fieldsCall.ReplaceAllStringFunc(code, func(call string) string {
			m := fieldsCall.FindStringSubmatch(call)
			key, list := m[1], m[2]
			if known[list] == "" {
				known[list] = fmt.Sprintf("fields_%d", len(known)+1)
				var table []string
				for i, quoted := range strings.Split(list, ", ") {
					table = append(table, fmt.Sprintf("%s = v[%d]", strings.Trim(quoted, "'"), i+1))
				}
				fmt.Fprintf(&out, "local function %s(key)\n  local v = call('HMGET', key, %s)\n  return {%s}\nend\n",
					known[list], list, strings.Join(table, ", "))
			}
			return known[list] + "(" + key + ")"
		})
	})
	p.read = out.String()
	return nil
}

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

var readOnce = regexp.MustCompile(`(?m)^( *)local ([a-z]+) = fields\(([^,()]+), ('[a-z_]+'(?:, '[a-z_]+')*)\)$`)

func scalars(code string, chosen func(indent, name string) bool) string {
	for _, m := range readOnce.FindAllStringSubmatch(code, -1) {
		line, indent, name, key, list := m[0], m[1], m[2], m[3], m[4]
		whole := regexp.MustCompile(`(^|[^.\w])` + name + `($|[^.\w])`) // not only a field of it
		if !chosen(indent, name) || whole.MatchString(bare(strings.Replace(code, line, "", 1))) {
			continue
		}
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
