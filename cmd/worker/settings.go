package main

import "turnstile/internal/program/config"

// settings reads a worker's settings.
func (p program) settings(flags map[string]string, dev bool) (config.Worker, error) {
	o := config.Options{Overrides: flags}
	if dev {
		o.Defaults = config.DevDefaults()
		// --dev's own Redis has nothing to lose, so asynqmon's buttons work.
		if p.Given(flags, "REDIS_URL")+p.Given(flags, "REDIS_URL_FILE") == "" {
			o.Defaults["TURNSTILE_DASHBOARD_WRITE"] = "true"
		}
	}
	return config.LoadWorker(p.Environ, o)
}
