package lua

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// lift replaces the session's table by locals, which cost nothing. A function that takes the
// session gets the fields that it needs.
func (p *parts) lift() error {
	needs, calls := map[string]map[string]bool{}, map[string][]string{}
	for _, f := range p.functions {
		need := map[string]bool{}
		for _, field := range fieldsOf(f.text, "s") {
			need[field] = true
		}
		for _, called := range sessionCalls(f.text) {
			calls[f.name] = append(calls[f.name], called)
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
		var out strings.Builder
		from := 0
		for at, called := range sessionCalls(code) {
			need, ours := needs[called]
			if !ours {
				return "", fmt.Errorf("%s gets the session and is no function of the library", called)
			}
			given := make([]string, 0, len(need))
			for _, field := range slices.Sorted(maps.Keys(need)) {
				given = append(given, "s_"+field)
			}
			out.WriteString(code[from:at[0]])
			out.WriteString(called + "(" + strings.Join(given, ", "))
			if from = at[1]; len(given) == 0 && code[from] == ',' {
				from += len(", ")
			}
		}
		out.WriteString(code[from:])
		return flat(out.String(), "s"), nil
	})
}
