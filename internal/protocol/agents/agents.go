// Package agents says which named agent a session gets.
package agents

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"turnstile/pkg/session"
)

// Default is the name of the agent of all sessions that fit no pattern. No table has it.
const Default = "default"

// Most is how many agents a table may have.
const Most = 1000

// mostName is how many characters a name may have.
const mostName = 64

// Table has the sessions of each agent. A pattern is a session's key, or the beginning of keys and a
// star: "acme:*". The longest pattern that fits a key decides. The nil Table has only Default.
type Table struct {
	rows     []row               // the longest pattern first
	sessions map[string][]string // by agent
}

type row struct{ pattern, agent string }

const nameRule = "a name has 1 to 64 letters, digits and ._:@+=~-, the first a letter or digit"

// ValidateName checks the name of an agent. The error wraps session.ErrInvalid.
func ValidateName(name string) error {
	if session.ValidateID(name) != nil || len(name) > mostName {
		return fmt.Errorf("%w agent %.100q: %s", session.ErrInvalid, name, nameRule)
	}
	return nil
}

// New checks the agents' names and patterns. The error joins all problems, each one line.
func New(sessions map[string][]string) (*Table, error) { return NewOf("agent", sessions) }

// NewOf is New for owners of sessions that are another kind of thing, such as tenants.
func NewOf(kind string, sessions map[string][]string) (*Table, error) {
	t := &Table{sessions: sessions}
	var problems []error
	wrong := func(agent, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s %q: %s", kind, agent, fmt.Sprintf(format, args...)))
	}
	owner := map[string]string{}
	for _, agent := range slices.Sorted(maps.Keys(sessions)) {
		if ValidateName(agent) != nil {
			wrong(agent, nameRule)
		}
		if agent == Default && kind == "agent" {
			wrong(agent, `this name is taken by the agent of all other sessions: choose another one, with sessions ["*"] if it is for all`)
			continue
		}
		if len(sessions[agent]) == 0 {
			wrong(agent, `sessions is missing: list patterns such as "acme:*"`)
		}
		for _, pattern := range sessions[agent] {
			first, beginning := strings.CutSuffix(pattern, "*")
			if err := session.ValidateKey("x" + first); err != nil || pattern == "" || !beginning && session.ValidateKey(pattern) != nil {
				wrong(agent, `sessions: %.100q is neither a session's key nor a beginning such as "acme:*"`, pattern)
				continue
			}
			if other, taken := owner[pattern]; taken {
				wrong(agent, "sessions: %q belongs to %s %q: give it to one of them", pattern, kind, other)
				continue
			}
			owner[pattern] = agent
			t.rows = append(t.rows, row{pattern, agent})
		}
	}
	if len(sessions) > Most {
		problems = append(problems, fmt.Errorf("there are %d %ss, at most %d are allowed", len(sessions), kind, Most))
	}
	// A whole key decides before any beginning.
	slices.SortFunc(t.rows, func(a, b row) int {
		whole := func(r row) int {
			if strings.HasSuffix(r.pattern, "*") {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(whole(a), whole(b)), cmp.Compare(len(b.pattern), len(a.pattern)), cmp.Compare(a.pattern, b.pattern))
	})
	return t, errors.Join(problems...)
}

// For returns the agent of a session that has not chosen one.
func (t *Table) For(sessionKey string) string {
	if t != nil {
		if name, ok := t.Find(sessionKey); ok {
			return name
		}
	}
	return Default
}

// Find returns whose pattern fits a session, if any does.
func (t *Table) Find(sessionKey string) (name string, ok bool) {
	for _, r := range t.rows {
		if fits(r.pattern, sessionKey) {
			return r.agent, true
		}
	}
	return "", false
}

// Covers reports whether an agent may run a session's turns: the session is one of its own.
func (t *Table) Covers(agent, sessionKey string) bool {
	if agent == Default || t == nil {
		return agent == Default
	}
	return slices.ContainsFunc(t.sessions[agent], func(p string) bool { return fits(p, sessionKey) })
}

func fits(pattern, sessionKey string) bool {
	beginning, all := strings.CutSuffix(pattern, "*")
	return all && strings.HasPrefix(sessionKey, beginning) || pattern == sessionKey
}
