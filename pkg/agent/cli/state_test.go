package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A sender's Redis user can write the record: each field that reaches a program, a path or a count is checked.
func TestForgedState(t *testing.T) {
	t.Parallel()
	const whole = `{"agent":"claude","session":"s-1","given":{"messages":"m","from":3},"deferred":{"id":"toolu_1","name":"mcp__pay-1","messages":"m","input":{"a":1}},"total":{"input_tokens":1}}`
	kept := func(stored string) string {
		s := stateOf(Claude, json.RawMessage(stored))
		return fmt.Sprint(s.Session != "", s.Given != nil, s.Deferred != nil, s.Total != nil)
	}
	expect.Equal(t, "a whole state", kept(whole), "true true true true")
	for field, c := range map[string]struct{ now, forged, want string }{
		"session":                {`"s-1"`, `"--settings=x"`, "false false false false"},
		"session, a path":        {`"s-1"`, `"../s-1"`, "false false false false"},
		"another agent's":        {`"claude"`, `"codex"`, "false false false false"},
		"given.from":             {`"from":3`, `"from":-1`, "true false true true"},
		"deferred.id":            {`"toolu_1"`, `"x\"}') d=deny;; esac; id; case x in 'y"`, "true true false true"},
		"deferred.id, a pattern": {`"toolu_1"`, `"*"`, "true true false true"},
		"deferred.id, empty":     {`"toolu_1"`, `""`, "true true false true"},
		"deferred.name":          {`"mcp__pay-1"`, `"Bash\u001b[2K"`, "true true false true"},
		"deferred.input":         {`{"a":1}`, `"` + strings.Repeat("x", shownInput) + `"`, "true true false true"},
		"total":                  {`"input_tokens":1`, `"input_tokens":-9`, "true true true false"},
	} {
		expect.Equal(t, field, kept(strings.Replace(whole, c.now, c.forged, 1)), c.want)
	}
}

// No word becomes part of the hook's script, wherever it comes from.
func TestHookIsTheSameForEveryAnswer(t *testing.T) {
	t.Parallel()
	scriptOf := func(a answer) (script string) {
		var settings struct {
			Env   map[string]string
			Hooks map[string][]struct{ Hooks []struct{ Command string } }
		}
		expect.OK(t, json.Unmarshal([]byte(claudeAsks([]string{"Bash"}, a)[1]), &settings))
		expect.Equal(t, "the call", settings.Env["TURNSTILE_ASK_CALL"] == a.call || a.call == "", true)
		return settings.Hooks["PreToolUse"][0].Hooks[0].Command
	}
	expect.Equal(t, "the script", scriptOf(answer{`x"}') id; 'y`, "allow", "'; id; '"}), scriptOf(answer{}))
}

func TestUsageSinceATotal(t *testing.T) {
	t.Parallel()
	total := session.Usage{Model: "m", InputTokens: 10, CachedTokens: 4, OutputTokens: 3, CostUSD: 2}
	if got := since(total, session.Usage{InputTokens: 8, CachedTokens: 4, OutputTokens: 1, CostUSD: 0.5}); got != (session.Usage{Model: "m", InputTokens: 2, OutputTokens: 2, CostUSD: 1.5}) {
		t.Errorf("%+v", got)
	}
	if got := since(total, session.Usage{InputTokens: 11}); got != total {
		t.Errorf("a count that began anew: %+v", got)
	}
}
