package main

import (
	"maps"
	"strings"

	"turnstile/internal/program/config"
)

// settings reads a worker's settings.
func (p *program) settings(flags map[string]string, dev bool) (config.Worker, error) {
	o := config.Options{Overrides: flags}
	if dev {
		o.Defaults = config.DevDefaults()
		// --dev's own Redis has nothing to lose, so asynqmon's buttons work.
		if p.given(flags, "REDIS_URL")+p.given(flags, "REDIS_URL_FILE") == "" {
			o.Defaults["TURNSTILE_DASHBOARD_WRITE"] = "true"
		}
	}
	return config.LoadWorker(p.environ, o)
}

// served reads the settings of the dashboard and its health check.
func (p *program) served(flags map[string]string, defaults map[string]string) (config.Worker, error) {
	return config.LoadWorker(p.environ, config.Options{Overrides: flags, Defaults: defaults, NoAgent: true})
}

// agentsInFile reads TURNSTILE_AGENTS_FILE for a command that runs no agent. Without the file there are none.
func (p *program) agentsInFile(flags map[string]string) ([]config.NamedAgent, error) {
	path := p.given(flags, "TURNSTILE_AGENTS_FILE")
	if path == "" {
		return nil, nil
	}
	return config.LoadAgents(path)
}

// given is the value that the user set for a variable.
func (p *program) given(flags map[string]string, name string) string {
	vars := map[string]string{}
	for _, entry := range p.environ {
		if n, value, ok := strings.Cut(entry, "="); ok {
			vars[n] = value
		}
	}
	maps.Copy(vars, flags)
	return vars[name]
}
