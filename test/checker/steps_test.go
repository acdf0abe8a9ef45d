package checker_test

import (
	"slices"
	"testing"

	"turnstile/test/checker"
	"turnstile/test/history"
)

// In m1's turn the end of a step was stored, and another step was begun. A worker's death is the reason for
// the next turn, which gets the one and names the other.
func TestSteps(t *testing.T) {
	t.Parallel()
	did := func(kind, turn, name string, at int64) history.Record {
		return history.Record{At: ms(at), Kind: kind, Session: session, ID: "m1", Turn: turn, Name: name, Via: "exec"}
	}
	notice := func(turn string) history.Record {
		return history.Record{At: ms(70), Kind: history.Event, Session: session, ID: "0-0.0",
			Text: `{"type":"notice","turn":"` + turn + `","text":"m1-1 was started before an interruption, and may have happened: please check."}`}
	}
	tool := func(name string) history.Record {
		e := entry("m1", 1)
		e.Role, e.ID, e.Name = "tool", "", name
		return e
	}
	first := turn("m1", 2, 3, 0)[:1]
	first[0].Turn = "t0"
	good := slices.Concat(ordinary(), first, []history.Record{
		did(history.Step, "t0", "m1-0", 3), did(history.Stepped, "t0", "m1-0", 4), did(history.Step, "t0", "m1-1", 5),
		{At: ms(7), Since: ms(6), Kind: history.Fault, Name: "worker killed"},
		did(history.Stepped, "tm1", "m1-0", 11), did(history.Stepped, "tm1", "m1-1", 12), tool("m1-0"), tool("m1-1"),
	})
	later := did(history.Step, "tm1", "m1-2", 13)
	later.Sum = "k1"
	otherKey := later
	otherKey.At, otherKey.Sum, otherKey.Again = ms(14), "k2", true
	again, ofRetry := turn("m9", 14, 16, 0)[:1], otherKey
	again[0].Turn, ofRetry.Turn, ofRetry.At = "t9", "t9", ms(15)
	for name, c := range map[string]struct {
		more []history.Record
		want bool
	}{
		"as it must be":                        {nil, false},
		"an ended one runs again":              {[]history.Record{did(history.Step, "tm1", "m1-0", 13)}, true},
		"an unknown one runs again":            {[]history.Record{did(history.Step, "tm1", "m1-1", 11)}, true},
		"it has another idempotency key":       {[]history.Record{later, otherKey}, true},
		"/retry gives it another one":          {append(again, later, ofRetry), false},
		"the transcript has another one first": {[]history.Record{tool("m1-0")}, true},
		"an unknown one is named":              {[]history.Record{notice("tm1")}, false},
		"an unknown one is named twice":        {[]history.Record{notice("tm1"), notice("tm1")}, true},
		"an operator has requeued the message": {[]history.Record{did(history.Step, "tm1", "m1-0", 13), {At: ms(8), Kind: history.Operator, Session: session, Name: "run", ID: "m1"}}, false},
	} {
		found := slices.ContainsFunc(checker.Check(slices.Concat(good, c.more), limits).Findings, func(f checker.Finding) bool { return f.Rule == checker.Steps })
		if found != c.want {
			t.Errorf("%s: found is %v", name, found)
		}
	}
}
