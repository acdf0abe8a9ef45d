package main

import (
	"maps"
	"strings"

	"turnstile/internal/config"
)

// settings reads what a worker needs to know.
func (p *program) settings(flags map[string]string, dev bool) (config.Worker, error) {
	o := config.Options{Overrides: flags}
	if dev {
		o.Defaults = config.DevDefaults()
		// Nothing is at stake in a Redis of its own: asynqmon's buttons are there
		// to be tried.
		if p.given(flags, "REDIS_URL")+p.given(flags, "REDIS_URL_FILE") == "" {
			o.Defaults["TURNSTILE_DASHBOARD_WRITE"] = "true"
		}
	}
	return config.LoadWorker(p.environ, o)
}

// served reads what the dashboard and its health check need to know.
func (p *program) served(flags map[string]string, defaults map[string]string) (config.Worker, error) {
	return config.LoadWorker(p.environ, config.Options{Overrides: flags, Defaults: defaults, NoAgent: true})
}

// given is what a variable was set to from outside.
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
