package worker

import (
	"fmt"
	"testing"
	"time"

	"turnstile/internal/protocol/agents"
	"turnstile/pkg/agent"
	"turnstile/test/expect"
)

// trait is an agent with traits.
type trait struct {
	agent.Func
	has agent.Traits
}

func (a trait) Traits() agent.Traits { return a.has }

// warming is one that is kept warm, too.
type warming struct {
	trait
	agent.Warmer
}

// Traits follow from all agents of a worker, whether there is a default one, named ones or both: its turns begin as
// running only if the only agent's do.
func TestTraitsOfSeveralAgents(t *testing.T) {
	t.Parallel()
	const kinds = 5 // of an agent: none, plain, immediate, instructable, warm
	agentOf := func(kind int) agent.Agent {
		a := trait{has: agent.Traits{Immediate: kind == 2, Instructable: kind == 3}}
		switch kind {
		case 0:
			return nil
		case 4:
			return warming{trait: a}
		}
		return a
	}
	for n := range kinds * kinds * kinds {
		of := map[string]int{agents.Default: n % kinds, "a": n / kinds % kinds, "b": n / kinds / kinds}
		c := Config{AgentTimeout: time.Second}
		count, warm := 0, false
		longest := time.Duration(0)
		var instructable []string
		for i, name := range []string{"a", "b", agents.Default} {
			kind := of[name]
			if kind == 0 {
				continue
			}
			count++
			warm = warm || kind == 4
			timeout := time.Second
			if name != agents.Default {
				timeout = time.Duration(i+2) * time.Second
				c.Agents = append(c.Agents, NamedAgent{Name: name, Agent: agentOf(kind), Sessions: []string{name + ":*"}, Timeout: timeout})
			}
			longest = max(longest, timeout)
			if kind == 3 {
				instructable = append(instructable, name)
			}
		}
		if count == 0 {
			continue
		}
		s, err := newServed(agentOf(of[agents.Default]), c)
		expect.OK(t, err)
		what := fmt.Sprint(of)
		expect.Equal(t, what+" immediate", s.immediate(), count == 1 && of[agents.Default] == 2)
		expect.Equal(t, what+" warm", s.warm(), warm)
		expect.Equal(t, what+" longest", s.longest(), longest)
		expect.List(t, what+" instructable", s.instructable(), instructable...)
	}
}
