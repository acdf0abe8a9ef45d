//go:build linux

package kills_test

import (
	"encoding/json"
	"strings"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/kills"
)

// The check finds what must not happen, and nothing in a run without it.
func TestFindings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(record *[]kills.Act, said *turn)
		finds  string
	}{
		"nothing": {func(*[]kills.Act, *turn) {}, ""},
		"a step runs again after its end": {func(record *[]kills.Act, _ *turn) {
			*record = append(*record, kills.Act{What: kills.Started, Message: "m", N: 2, Key: "key2"})
		}, "m act02: started after its end was stored"},
		"an unknown step runs again": {func(record *[]kills.Act, _ *turn) {
			*record = append([]kills.Act{{What: kills.Started, Message: "m", N: 3, Key: "key3"}}, *record...)
		}, "m act03: was started 2 times"},
		"another key": {func(record *[]kills.Act, _ *turn) {
			*record = append([]kills.Act{{What: kills.Started, Message: "m", N: 2, Key: "other"}}, *record...)
		}, `m act02: had the idempotency keys ["other" "key2"]`},
		"a key twice": {func(record *[]kills.Act, _ *turn) {
			*record = append([]kills.Act{{What: kills.Started, Message: "n", N: 2, Key: "key2"}}, *record...)
		}, "m act02: has the idempotency key of n act02"},
		"another result": {func(_ *[]kills.Act, said *turn) {
			said.uses["act05"] = []session.ToolUse{{Output: json.RawMessage(`{"n": 5, "nonce": "x"}`)}}
		}, "m act05: its result is"},
		"a stored result is lost": {func(_ *[]kills.Act, said *turn) {
			said.uses["act05"], said.notices["act05"] = []session.ToolUse{{Error: "unknown"}}, 1
		}, "m act05: its end was stored, and is not known"},
		"a safe step does not run again": {func(_ *[]kills.Act, said *turn) {
			said.uses["act04"], said.notices["act04"] = []session.ToolUse{{Error: "unknown"}}, 1
		}, "m act04: did not run again"},
		"an unknown step is not named":   {func(_ *[]kills.Act, said *turn) { delete(said.notices, "act06") }, "m act06: nobody knows its end, and no notice says so"},
		"an unknown step is named twice": {func(_ *[]kills.Act, said *turn) { said.notices["act06"]++ }, "m act06: 2 notices"},
		"a step with a result is named":  {func(_ *[]kills.Act, said *turn) { said.notices["act05"]++ }, "m act05: is said to be unknown, and has a result"},
		"a step is twice in the transcript": {func(_ *[]kills.Act, said *turn) {
			said.uses["act05"] = append(said.uses["act05"], said.uses["act05"]...)
		}, "m act05: is 2 times"},
		"a message is lost":                   {func(_ *[]kills.Act, said *turn) { said.status = session.StatusFailed }, "m: ended failed"},
		"a message is not in the transcript":  {func(_ *[]kills.Act, said *turn) { said.said = 0 }, "is 0 times in the transcript"},
		"a message has two replies":           {func(_ *[]kills.Act, said *turn) { said.ends++ }, "m: has ended 2 times"},
		"another step's stored result counts": {func(record *[]kills.Act, _ *turn) { (*record)[2].Nonce = "x" }, "m act00: its result is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := turn{message: "m", status: session.StatusDone, reply: "done m", said: 1, uses: map[string][]session.ToolUse{}, notices: map[string]int{"act06": 1}, runs: 1, ends: 1}
			var record []kills.Act
			for n := range kills.Steps {
				name, nonce := kills.Name(n), kills.Name(n)
				record = append(record, kills.Act{What: kills.Started, Message: "m", N: n, Key: "key" + name[len(name)-1:] + strings.Repeat("+", n/10), Nonce: nonce})
				if n == 6 { // its worker died
					said.uses[name] = []session.ToolUse{{Error: "unknown"}}
					continue
				}
				record = append(record, kills.Act{What: kills.Ended, Message: "m", N: n, Nonce: nonce}, kills.Act{What: kills.Stored, Message: "m", N: n, Nonce: nonce})
				output, err := json.Marshal(kills.Result{N: n, Nonce: nonce})
				expect.OK(t, err)
				said.uses[name] = []session.ToolUse{{Output: output}}
			}
			c.change(&record, &said)
			found := check(record, []turn{said}).findings
			if c.finds == "" && len(found) > 0 || c.finds != "" && !strings.Contains(strings.Join(found, "\n"), c.finds) {
				t.Errorf("it finds %q, want %q", found, c.finds)
			}
		})
	}
}
