package exec

import (
	"fmt"
	"strconv"
	"strings"

	"turnstile/pkg/agent"
)

// What every command gets of the worker's environment.
var basicEnv = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TERM", "TMPDIR"}

const ownPrefix = "TURNSTILE_"

type envFilter struct {
	names    map[string]bool
	prefixes []string
}

func newEnvFilter(extra []string) (envFilter, error) {
	f := envFilter{names: map[string]bool{}}
	for _, name := range append(append([]string{}, basicEnv...), extra...) {
		switch {
		case name == "" || strings.ContainsAny(name, "= \t\n\x00"):
			return f, fmt.Errorf("environment name %q: give the variable's name only", name)
		case private(name):
			return f, fmt.Errorf("environment name %q: %s and the worker's own settings (%s...) are not for agents", name, "REDIS_URL", ownPrefix)
		case strings.HasSuffix(name, "*"):
			f.prefixes = append(f.prefixes, strings.TrimSuffix(name, "*"))
		default:
			f.names[name] = true
		}
	}
	return f, nil
}

// private names are never passed on, whatever a prefix says.
func private(name string) bool {
	return name == "REDIS_URL" || strings.HasPrefix(name, ownPrefix)
}

func (f envFilter) passes(name string) bool {
	if private(name) {
		return false
	}
	if f.names[name] {
		return true
	}
	for _, prefix := range f.prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// forTurn is the environment of a turn's command.
func (f envFilter) forTurn(environ []string, turn agent.Turn) []string {
	env := make([]string, 0, 24)
	for _, entry := range environ {
		if name, _, ok := strings.Cut(entry, "="); ok && f.passes(name) {
			env = append(env, entry)
		}
	}
	message := ""
	if len(turn.Messages) > 0 {
		message = turn.Messages[0].ID
	}
	return append(env,
		"TURNSTILE_SESSION="+turn.Session,
		"TURNSTILE_SESSION_ID="+turn.SessionID,
		"TURNSTILE_MESSAGE_ID="+message,
		"TURNSTILE_TURN_ID="+turn.ID,
		"TURNSTILE_FENCE="+strconv.FormatInt(turn.Fence, 10),
	)
}
