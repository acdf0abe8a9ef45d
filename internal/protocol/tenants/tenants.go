// Package tenants says whose a session is: which tenant's, with what weight and what limits.
package tenants

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"turnstile/internal/protocol/agents"
	"turnstile/internal/text/strictjson"
)

// The kinds of limits. A limit's name is its kind, a colon, and a name.
const (
	OfTenant = "tenant"
	OfAgent  = "agent"
)

// Split returns kind and name of a limit.
func Split(limit string) (kind, name string) {
	kind, name, _ = strings.Cut(limit, ":")
	return kind, name
}

// Others is the entry for the tenants that have none: the tenant of such a session is its key up to the first colon.
const Others = "*"

// MostWeight is the highest weight.
const MostWeight = 1000

// MostBytes is the most bytes of a table as JSON.
const MostBytes = 1 << 20

// whole is the distance of tags that a tenant of weight 1 is charged for a turn. Weights divide it.
const whole = 1_000_000

// Tenant has the settings of one tenant.
type Tenant struct {
	// Sessions are the keys of the tenant's sessions, or their beginnings and a star, as in agents.New.
	Sessions []string `json:"sessions,omitempty"`

	// Weight is how many turns the tenant begins for one of a tenant with weight 1, while both wait. Defaults to 1.
	Weight *int `json:"weight,omitempty"`

	Limits
}

// Limits bound what a tenant or an agent may use at once.
type Limits struct {
	// Running is how many of its sessions may run at once, on all workers. Defaults to any number.
	Running *int `json:"running,omitempty"`
}

// File is the table as a person writes it.
type File struct {
	// Tenants are the tenants by name.
	Tenants map[string]Tenant `json:"tenants"`

	// Agents are limits of agents by name.
	Agents map[string]Limits `json:"agents,omitempty"`
}

// Table is a checked File.
type Table struct {
	file     File
	patterns *agents.Table
	caps     map[string]int
}

// Parse reads a table. The error joins all problems, each one line.
func Parse(data []byte) (*Table, error) {
	if len(data) > MostBytes {
		return nil, fmt.Errorf("the table has %d bytes, at most %d are allowed", len(data), MostBytes)
	}
	t := &Table{caps: map[string]int{}}
	if err := strictjson.DecodeNamed(data, &t.file); err != nil {
		return nil, err
	}
	var problems []error
	wrong := func(kind, name, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s %q: %s", kind, name, fmt.Sprintf(format, args...)))
	}
	sessions := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(t.file.Tenants)) {
		one := t.file.Tenants[name]
		if one.Weight != nil && (*one.Weight < 1 || *one.Weight > MostWeight) {
			wrong(OfTenant, name, "weight is %d: from 1 to %d are allowed", *one.Weight, MostWeight)
		}
		t.limit(OfTenant, name, one.Limits, wrong)
		switch {
		case name != Others:
			sessions[name] = one.Sessions
		case len(one.Sessions) > 0:
			wrong(OfTenant, name, "sessions: this entry is for the sessions of no other one: leave them out, or give it a name")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.file.Agents)) {
		if name != Others && agents.ValidateName(name) != nil {
			problems = append(problems, agents.ValidateName(name))
		}
		t.limit(OfAgent, name, t.file.Agents[name], wrong)
	}
	var err error
	t.patterns, err = agents.NewOf(OfTenant, sessions)
	return t, errors.Join(append([]error{err}, problems...)...)
}

// limit checks an entry's limits, and adds their caps.
func (t *Table) limit(kind, name string, l Limits, wrong func(kind, name, format string, args ...any)) {
	switch {
	case l.Running == nil:
	case *l.Running < 1:
		wrong(kind, name, "running is %d: at least 1 is allowed, and any number if it is left out", *l.Running)
	default:
		t.caps[kind+":"+name] = *l.Running
	}
}

// Of returns the name of a session's tenant.
func (t *Table) Of(sessionKey string) string {
	if name, ok := t.patterns.Find(sessionKey); ok {
		return name
	}
	name, _, _ := strings.Cut(sessionKey, ":")
	return name
}

// Weight is how many turns a tenant begins for one of a tenant with weight 1, while both wait.
func (t *Table) Weight(tenant string) int {
	one, ok := t.file.Tenants[tenant]
	if !ok {
		one = t.file.Tenants[Others]
	}
	if one.Weight == nil {
		return 1
	}
	return *one.Weight
}

// Share is the distance of tags between two sessions of a tenant.
func (t *Table) Share(tenant string) int { return whole / t.Weight(tenant) }

// LimitsOf returns the names of the limits for which a session counts while it runs, if they have caps.
func LimitsOf(tenant, agent string) []string {
	return []string{OfTenant + ":" + tenant, OfAgent + ":" + agent}
}

// Caps are the caps of limits, by name. KIND:* is that of each limit of a kind without its own.
func (t *Table) Caps() map[string]int { return t.caps }

// LimitsAgents reports whether agents have limits.
func (t *Table) LimitsAgents() bool { return len(t.file.Agents) > 0 }

// Tenants are the entries' names, sorted.
func (t *Table) Tenants() []string { return slices.Sorted(maps.Keys(t.file.Tenants)) }
