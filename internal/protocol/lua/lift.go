package lua

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// fieldOf matches a field of a table: the character before it, the table and the field.
func fieldOf(table string) *regexp.Regexp {
	return regexp.MustCompile(`(^|[^.\w])` + table + `\.([a-z_]+)`)
}

// flat replaces the fields of a table by locals: table.field by table_field.
func flat(code, table string) string {
	return fieldOf(table).ReplaceAllString(code, "${1}"+table+"_${2}")
}

var (
	sessionField = fieldOf("s")
	sessionCall  = regexp.MustCompile(`\b([a-z_]+)\(s(, |\))`) // the session is the first argument
)

// lift replaces the session's table by locals, which cost nothing. A function that takes the
// session gets the fields that it needs.
func (p *parts) lift() (err error) {
	needs, calls := map[string]map[string]bool{}, map[string][]string{}
	for _, f := range p.functions {
		needs[f.name] = map[string]bool{}
		for _, m := range sessionField.FindAllStringSubmatch(f.text, -1) {
			needs[f.name][m[2]] = true
		}
		for _, m := range sessionCall.FindAllStringSubmatch(f.text, -1) {
			calls[f.name] = append(calls[f.name], m[1])
		}
	}
	for grown := true; grown; {
		grown = false
		for name, need := range needs {
			before := len(need)
			for _, called := range calls[name] {
				maps.Copy(need, needs[called])
			}
			grown = grown || len(need) > before
		}
	}
	p.each(func(code string) string {
		return flat(sessionCall.ReplaceAllStringFunc(code, func(call string) string {
			called, end, _ := strings.Cut(call, "(s")
			need, ours := needs[called]
			if !ours {
				err = fmt.Errorf("%s gets the session and is no function of the library", called)
			}
			var given []string
			for _, field := range slices.Sorted(maps.Keys(need)) {
				given = append(given, "s_"+field)
			}
			if len(given) == 0 {
				end = strings.TrimPrefix(end, ", ")
			}
			return called + "(" + strings.Join(given, ", ") + end
		}), "s")
	})
	return err
}
