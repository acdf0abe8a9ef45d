package operator

import (
	"maps"
	"strings"

	"turnstile/internal/program/config"
)

// served reads the settings of the dashboard and its health check.
func (p *Program) served(flags map[string]string, defaults map[string]string) (config.Worker, error) {
	return config.LoadWorker(p.Environ, config.Options{Overrides: flags, Defaults: defaults, NoAgent: true})
}

// agentsInFile reads TURNSTILE_AGENTS_FILE for a command that runs no agent. Without the file there are none.
func (p *Program) agentsInFile(flags map[string]string) ([]config.NamedAgent, error) {
	path := p.Given(flags, "TURNSTILE_AGENTS_FILE")
	if path == "" {
		return nil, nil
	}
	return config.LoadAgents(path)
}

// Given is the value that the user set for a variable.
func (p *Program) Given(flags map[string]string, name string) string {
	vars := map[string]string{}
	for _, entry := range p.Environ {
		if n, value, ok := strings.Cut(entry, "="); ok {
			vars[n] = value
		}
	}
	maps.Copy(vars, flags)
	return vars[name]
}
