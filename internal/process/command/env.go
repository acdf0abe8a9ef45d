package command

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"turnstile/pkg/agent"
)

// basicEnv are the variables that every command gets from the worker's environment.
var basicEnv = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TERM", "TMPDIR"}

const ownPrefix = "TURNSTILE_"

// Env selects the variables of the worker's environment that a program gets in addition to the
// basic ones.
type Env struct {
	names    map[string]bool
	prefixes []string
	set      []string // NAME=VALUE
	never    map[string]bool
}

// NewEnv selects further variables by their names. A name that ends in * matches every name with
// that beginning. NAME=VALUE sets a variable, and -NAME keeps one from being selected. REDIS_URL and names that begin
// with TURNSTILE_ are errors.
func NewEnv(extra []string) (Env, error) {
	f := Env{names: map[string]bool{}, never: map[string]bool{}}
	for _, item := range append(append([]string{}, basicEnv...), extra...) {
		if name, ok := strings.CutPrefix(item, "-"); ok {
			f.never[name] = true
			continue
		}
		name, _, set := strings.Cut(item, "=")
		switch {
		case set && name != "" && !strings.ContainsAny(name, " \t\n\x00*") && !private(name) && !strings.Contains(item, "\x00"):
			f.set = append(f.set, item)
			f.never[name] = true // the worker's own
		case name == "" || set && !private(name) || strings.ContainsAny(name, " \t\n\x00"):
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

// private reports whether a variable is never passed on, even if a prefix matches it.
func private(name string) bool {
	return name == "REDIS_URL" || name == "REDIS_URL_FILE" || strings.HasPrefix(name, ownPrefix)
}

func (f Env) passes(name string) bool {
	if private(name) || f.never[name] {
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

// ForTurn returns the environment of a program that runs one turn.
func (f Env) ForTurn(environ []string, turn *agent.Turn) []string {
	message := ""
	if len(turn.Messages) > 0 {
		message = turn.Messages[0].ID
	}
	env := append(f.ForSession(environ, turn.Session),
		"TURNSTILE_SESSION_ID="+word(turn.TranscriptID),
		"TURNSTILE_MESSAGE_ID="+word(message),
		"TURNSTILE_TURN_ID="+word(turn.ID),
		"TURNSTILE_FENCE="+strconv.FormatInt(turn.Fence, 10),
	)
	if turn.TraceParent != "" {
		env = append(env, "TRACEPARENT="+turn.TraceParent) // as OpenTelemetry has it
	}
	return env
}

// word is a value that comes from Redis. A program cannot be started with a zero byte or very long variables, and
// then its worker would leave the agent alone, for all sessions.
func word(value string) string {
	const most = 1 << 10
	if len(value) > most || strings.ContainsFunc(value, unicode.IsControl) {
		return ""
	}
	return value
}

// ForSession returns the environment of a program that runs several turns of a session.
func (f Env) ForSession(environ []string, session string) []string {
	env := make([]string, 0, 24)
	for _, entry := range environ {
		if name, _, ok := strings.Cut(entry, "="); ok && f.passes(name) {
			env = append(env, entry)
		}
	}
	return append(append(env, f.set...), "TURNSTILE_SESSION="+word(session))
}
