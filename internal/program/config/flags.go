package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// FlagName returns the flag of a setting: --redis for REDIS_URL, --http-addr for
// TURNSTILE_HTTP_ADDR and --addr for TURNSTILE_GATEWAY_ADDR.
func FlagName(variable string) string {
	if variable == "REDIS_URL" {
		return "redis"
	}
	variable = strings.TrimPrefix(strings.TrimPrefix(variable, prefix), "GATEWAY_")
	return strings.ReplaceAll(strings.ToLower(variable), "_", "-")
}

// AddFlags adds a flag for each named setting, or for all. It returns the flags' names.
func AddFlags(flags *pflag.FlagSet, settings []Setting, named ...string) (names []string) {
	for _, s := range settings {
		if len(named) > 0 && !slices.Contains(named, s.Name) {
			continue
		}
		name := FlagName(s.Name)
		flags.String(name, "", fmt.Sprintf("`%s` instead of %s", strings.ReplaceAll(s.Unit, ", ", "|"), s.Name))
		if s.Default == "false" {
			flags.Lookup(name).NoOptDefVal = "true"
		}
		names = append(names, name)
	}
	return names
}

// Flagged returns the settings that were given as flags.
func Flagged(flags *pflag.FlagSet, settings []Setting) map[string]string {
	given := map[string]string{}
	for _, s := range settings {
		if f := flags.Lookup(FlagName(s.Name)); f != nil && f.Changed {
			given[s.Name] = f.Value.String()
		}
	}
	return given
}
