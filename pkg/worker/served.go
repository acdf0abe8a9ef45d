package worker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"turnstile/internal/protocol/agents"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// served is an agent that the worker runs.
type served struct {
	agent.Traits
	name       string
	agent      agent.Agent
	warmer     agent.Warmer // nil: it is not kept warm
	timeout    time.Duration
	askTimeout time.Duration
	approvers  []string
}

// servedAgents are a worker's agents by name.
type servedAgents struct {
	byName map[string]*served
	table  *agents.Table // nil: there is only the default one
	pool   bool          // other workers run some of the agents
}

// newServed returns the agents of a checked config. a is the default one; nil: there is none.
func newServed(a agent.Agent, c Config) (servedAgents, error) {
	s := servedAgents{byName: map[string]*served{}}
	add := func(name string, a agent.Agent, timeout, askTimeout time.Duration, approvers []string) {
		one := &served{name: name, agent: a, timeout: timeout, askTimeout: askTimeout, approvers: approvers}
		if d, ok := a.(agent.Describer); ok {
			one.Traits = d.Traits()
		}
		one.warmer, _ = a.(agent.Warmer)
		s.byName[name] = one
	}
	if a != nil {
		add(agents.Default, a, c.AgentTimeout, c.AskTimeout, c.Approvers)
	}
	if len(c.Agents) == 0 && a == nil {
		return s, errors.New("worker: there is no agent")
	}
	if len(c.Agents) == 0 {
		return s, nil
	}
	sessions := map[string][]string{}
	for _, n := range c.Agents {
		_, twice := sessions[n.Name]
		sessions[n.Name] = n.Sessions
		switch {
		case session.ValidateApprovers(n.Approvers) != nil:
			return s, fmt.Errorf("worker: Config.Agents: agent %q: %w", n.Name, session.ValidateApprovers(n.Approvers))
		case twice:
			return s, fmt.Errorf("worker: Config.Agents: agent %q is there twice", n.Name)
		case n.Agent == nil:
			s.pool = true
			continue
		}
		n.Timeout = cmp.Or(n.Timeout, c.AgentTimeout)
		n.AskTimeout = cmp.Or(n.AskTimeout, c.AskTimeout)
		add(n.Name, n.Agent, n.Timeout, n.AskTimeout, n.Approvers)
	}
	if len(s.byName) == 0 {
		return s, errors.New("worker: all of Config.Agents are nil: this worker would run none")
	}
	var err error
	if s.table, err = agents.New(sessions); err != nil {
		err = fmt.Errorf("worker: Config.Agents: %w", err)
	}
	return s, err
}

// of returns the agent for a session's turn, or nil: the agent is not here, or the session is none
// of its own. Then nothing runs: a tenant's Redis user may write what it likes into its own records.
func (s servedAgents) of(name, sessionKey string) *served {
	if !s.table.Covers(name, sessionKey) {
		return nil
	}
	return s.byName[name]
}

// names are the agents' names, sorted.
func (s servedAgents) names() []string { return slices.Sorted(maps.Keys(s.byName)) }

// known are the names of all agents, also those that other workers run.
func (s servedAgents) known(all []NamedAgent) []string {
	names := append(s.names(), agents.Default)
	for _, n := range all {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// instructable are those of the agents that take requests of clients.
func (s servedAgents) instructable() []string {
	return slices.DeleteFunc(s.names(), func(name string) bool { return !s.byName[name].Instructable })
}

// immediate reports whether the only agent starts at once. The phase stands before the agent is known.
func (s servedAgents) immediate() bool {
	only := s.byName[agents.Default]
	return len(s.byName) == 1 && only != nil && only.Immediate
}

// warm reports whether any agent is kept warm.
func (s servedAgents) warm() bool {
	for _, one := range s.byName {
		if one.warmer != nil {
			return true
		}
	}
	return false
}

// longest is the longest that a turn may take.
func (s servedAgents) longest() (most time.Duration) {
	for _, one := range s.byName {
		most = max(most, one.timeout)
	}
	return most
}
