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
	sessionCall  = regexp.MustCompile(`\b()([a-z_]+)\(s(, |\))`)
)

// lift has a script pay nothing for the session's table: its fields are locals, and a
// function that takes it is given those fields that it needs.
func (p *parts) lift() error {
	needs := map[string]map[string]bool{}
	for _, f := range p.functions {
		needs[f.name] = map[string]bool{}
	}
	for grown := true; grown; {
		grown = false
		for _, f := range p.functions {
			need, before := needs[f.name], len(needs[f.name])
			for _, m := range sessionField.FindAllStringSubmatch(f.text, -1) {
				need[m[2]] = true
			}
			for _, m := range sessionCall.FindAllStringSubmatch(f.text, -1) {
				for field := range needs[m[2]] {
					need[field] = true
				}
			}
			grown = grown || len(need) > before
		}
	}
	return p.each(func(code string) (string, error) {
		var unknown error
		code = sessionCall.ReplaceAllStringFunc(code, func(m string) string {
			sub := sessionCall.FindStringSubmatch(m)
			need, ours := needs[sub[2]]
			if !ours {
				unknown = fmt.Errorf("%s gets the session and is no function of the library", sub[2])
				return m
			}
			given := make([]string, 0, len(need))
			for _, field := range slices.Sorted(maps.Keys(need)) {
				given = append(given, "s_"+field)
			}
			end := sub[3]
			if len(given) == 0 && end == ", " {
				end = ""
			}
			return sub[1] + sub[2] + "(" + strings.Join(given, ", ") + end
		})
		return sessionField.ReplaceAllString(code, "${1}s_$2"), unknown
	})
}
