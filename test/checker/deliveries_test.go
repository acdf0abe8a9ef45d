package checker_test

import (
	"slices"
	"testing"

	"turnstile/test/checker"
	"turnstile/test/history"
)

// An attempt that was sent before an earlier one was handled cannot be marked as a possible
// duplicate.
func TestLateAttemptNeedNotSayThatItIsADuplicate(t *testing.T) {
	t.Parallel()
	late := post("d1", 2000, "m1")
	late.Done = false
	for _, f := range checker.Check(append(ordinary(), late), limits).Findings {
		t.Error(f)
	}
}

// The outcome of a redriven delivery, with a new sequence, may come late.
func TestRedrivenOutcome(t *testing.T) {
	t.Parallel()
	var records []history.Record
	for _, r := range ordinary() {
		if r.Kind == history.Send {
			r.Route = "hook"
		}
		if r.Kind == history.Post {
			r.Code, r.Done = 422, false
		}
		records = append(records, r)
	}
	redriven := post("d1", 38, "m1")
	redriven.Again = true
	for _, f := range checker.Check(append(records, post("d2", 37, "m2"), redriven), limits).Findings {
		t.Error(f)
	}
}

// Followers of short streams may miss events, but get each stored one.
func TestGapsOfShortStreams(t *testing.T) {
	t.Parallel()
	short := limits
	short.Gaps = true
	for missed, allowed := range map[string]bool{"1-0.0": true, "10-0.1": false} {
		var records []history.Record
		for _, r := range ordinary() {
			switch {
			case r.Kind == history.Event && r.ID == "1-0.0": // it is no longer stored
			case r.Kind == history.Followed && r.ID == missed:
				records = append(records, history.Record{At: r.At, Kind: r.Kind, Session: session, Name: "gap"})
			default:
				records = append(records, r)
			}
		}
		if found := checker.Check(records, short).Findings; len(found) == 0 != allowed {
			t.Errorf("without %s: %v", missed, found)
		}
	}
}

// In the calm nothing waits for more than a second. A delivery that is tried again also waits for its
// pause.
func TestLate(t *testing.T) {
	t.Parallel()
	busy := func(at int64) history.Record {
		r := post("d1", at, "m1")
		r.Code, r.Done = 429, false
		return r
	}
	for name, c := range map[string]struct {
		late bool
		more []history.Record
	}{
		"at once":               {},
		"a turn":                {true, slices.Concat(sent("m3", 100), turn("m3", 1200, 1210, 3))},
		"a delivery":            {true, slices.Concat(sent("m3", 100), turn("m3", 110, 120, 3), []history.Record{post("d3", 1200, "m3")})},
		"after a 429":           {false, []history.Record{busy(36), post("d1", 2200, "m1")}},
		"after a 429, too late": {true, []history.Record{busy(36), post("d1", 5000, "m1")}},
	} {
		records := append(ordinary(), history.Record{At: 1, Kind: history.Calm})
		found := checker.Check(append(records, c.more...), limits).Findings
		if slices.ContainsFunc(found, func(f checker.Finding) bool { return f.Rule == checker.Late }) != c.late {
			t.Errorf("%s: %v", name, found)
		}
	}
}
