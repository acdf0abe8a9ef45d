package checker_test

import (
	"slices"
	"testing"

	"turnstile/test/checker"
	"turnstile/test/history"
)

// m1's turn waits for a value and is parked. It gets the value in its next run.
func TestValues(t *testing.T) {
	t.Parallel()
	record := func(kind string, at int64, done bool) history.Record {
		return history.Record{At: ms(at), Kind: kind, Session: session, ID: "m1", Turn: "tm1", Sum: "secret", Done: done, Text: string(history.ValueOf("secret"))}
	}
	first := turn("m1", 2, 3, 0)
	first[0].Turn, first[1].Turn, first[1].Status = "t0", "t0", history.Parked
	other := record(history.Waited, 11, true)
	other.Text = "1"
	good := slices.Concat(ordinary(), first, []history.Record{record(history.Given, 4, false), record(history.Waited, 11, true)})
	for _, f := range checker.Check(good, limits).Findings {
		t.Errorf("a sound history: %s", f)
	}
	for name, c := range map[string]struct {
		rule    string
		history []history.Record
	}{
		"a given value is not there":    {checker.Values, slices.Concat(ordinary(), first, []history.Record{record(history.Given, 4, false), record(history.Waited, 11, false)})},
		"a value is gone in a next run": {checker.Values, append(slices.Clone(good), record(history.Waited, 12, false))},
		"another value":                 {checker.Values, slices.Concat(ordinary(), first, []history.Record{other})},
		"nothing was parked":            {checker.Bounded, slices.Concat(ordinary(), first[:1])},
	} {
		if !slices.ContainsFunc(checker.Check(c.history, limits).Findings, func(f checker.Finding) bool { return f.Rule == c.rule }) {
			t.Errorf("%s: no finding of the rule %s", name, c.rule)
		}
	}
}
