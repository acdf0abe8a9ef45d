package lua

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	sessionField = regexp.MustCompile(`(^|[^.\w])s\.([a-z_]+)`)
	sessionCall  = regexp.MustCompile(`\b([a-z_]+)\(s(, |\))`)
)

// lift replaces the session's table by locals, which cost nothing. A function that takes the
// session gets the fields that it needs.
func (p *parts) lift() error {
	needs, calls := map[string]map[string]bool{}, map[string][]string{}
	for _, f := range p.functions {
		need := map[string]bool{}
		for _, m := range sessionField.FindAllStringSubmatch(f.text, -1) {
			need[m[2]] = true
		}
		for _, m := range sessionCall.FindAllStringSubmatch(f.text, -1) {
			calls[f.name] = append(calls[f.name], m[1])
		}
		needs[f.name] = need
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
	return p.each(func(code string) (string, error) {
		var unknown error
		code = sessionCall.ReplaceAllStringFunc(code, func(m string) string {
			sub := sessionCall.FindStringSubmatch(m)
			need, ours := needs[sub[1]]
			if !ours {
				unknown = fmt.Errorf("%s gets the session and is no function of the library", sub[1])
				return m
			}
			given := make([]string, 0, len(need))
			for _, field := range slices.Sorted(maps.Keys(need)) {
				given = append(given, "s_"+field)
			}
			end := sub[2]
			if len(given) == 0 && end == ", " {
				end = ""
			}
			return sub[1] + "(" + strings.Join(given, ", ") + end
		})
		return sessionField.ReplaceAllString(code, "${1}s_$2"), unknown
	})
}
