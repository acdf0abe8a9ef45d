package rights_test

import (
	"slices"
	"strings"
	"testing"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/rights"
	"turnstile/internal/redis/redisconn"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A user that lacks one command or key of docs/redis-rules.txt is refused, and the error names it.
func TestMissingRightsHaveNames(t *testing.T) {
	t.Parallel()
	for user, role := range map[string]rights.Role{acl.Worker: rights.Worker, acl.Gateway: rights.Gateway} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			check := func(t *testing.T, rules []string) error {
				acl.Set(t, server.Client(), user, rules...)
				rdb, err := redisconn.Open(acl.URL(t, server.URL(), user))
				expect.OK(t, err)
				defer func() { _ = rdb.Close() }()
				return rights.Check(t.Context(), rdb, role)
			}
			rules := acl.Rules(t)[user]
			expect.OK(t, check(t, rules))
			for i, word := range rules {
				for _, lack := range lacks(word) {
					less := slices.Replace(slices.Clone(rules), i, i+1, lack.rest...)
					if err := check(t, less); err == nil || !lack.named(redisconn.Explain(err)) {
						t.Errorf("without %s of %s: %v", lack.part, word, err)
					}
				}
			}
			n, err := server.Client().Exists(t.Context(), rediskey.Timer("rights"), rediskey.For(" ").State(), rediskey.Ticket("rights")).Result()
			expect.OK(t, err)
			expect.Equal(t, "keys that the check leaves", n, 0)
		})
	}
}

// lack is a rule without one of its parts.
type lack struct {
	part string
	rest []string
	key  string // of a rule for one key
}

// lacks returns the rule without each part that is checked. A rule in parentheses has several.
func lacks(word string) (all []lack) {
	if !strings.HasPrefix(word, "(") {
		if checked(word) {
			all = append(all, lack{part: word})
		}
		return all
	}
	parts := strings.Fields(strings.Trim(word, "()"))
	for i, part := range parts {
		if rest := slices.Delete(slices.Clone(parts), i, i+1); checked(part) {
			all = append(all, lack{part, []string{"(" + strings.Join(rest, " ") + ")"}, name(parts[0])})
		}
	}
	return all
}

// checked reports whether Check looks at a part of a rule.
func checked(part string) bool {
	switch kind, name := part[:1], strings.TrimPrefix(part, "%R")[1:]; {
	case kind != "+" && kind != "~" && kind != "&" && kind != "%", strings.HasPrefix(name, "asynq:{session:"), strings.HasPrefix(name, "turnstile:{session:"):
		return false // which sessions a user may reach is the operator's choice
	case strings.HasPrefix(name, "asynq:") && name != "asynq:queues" && name != "asynq:servers":
		return false // a worker's asynq logs them
	case name == "ping" || name == "info" || strings.Contains(name, "|"):
		return false // redisconn.Check calls the first two; a warning names the others' lack
	}
	return part != "+bzpopmin" // without it a worker gets no message; its log says why
}

// named reports whether a text has the name of the part, or the key that it is for.
func (l lack) named(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, name(l.part)) || l.key != "" && strings.Contains(text, l.key)
}

func name(part string) string {
	return strings.TrimSuffix(strings.TrimPrefix(part, "%R")[1:], "*")
}
