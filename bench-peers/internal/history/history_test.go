package history_test

import (
	"slices"
	"testing"

	"turnstile/bench/peers/internal/history"
)

// turn is a message that is handled while no other one is.
func turn(session, sequence int) []history.Step {
	return []history.Step{{Session: session, Sequence: sequence}, {Session: session, Sequence: sequence, End: true}}
}

func begin(session, sequence int) history.Step {
	return history.Step{Session: session, Sequence: sequence}
}

func end(session, sequence int) history.Step {
	return history.Step{Session: session, Sequence: sequence, End: true}
}

func TestCheckFindsEachViolation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps []history.Step
		want  history.Verdict
	}{
		"right":                   {slices.Concat(turn(0, 0), turn(1, 0), turn(0, 1), turn(1, 1)), history.Verdict{}},
		"sessions side by side":   {[]history.Step{begin(0, 0), begin(1, 0), end(1, 0), end(0, 0), begin(1, 1), begin(0, 1), end(0, 1), end(1, 1)}, history.Verdict{}},
		"wrong order":             {slices.Concat(turn(0, 1), turn(0, 0), turn(1, 0), turn(1, 1)), history.Verdict{OutOfOrder: 1}},
		"lost":                    {slices.Concat(turn(0, 0), turn(0, 1), turn(1, 0)), history.Verdict{Lost: 1}},
		"begun and never ended":   {slices.Concat(turn(0, 0), turn(0, 1), turn(1, 0), []history.Step{begin(1, 1)}), history.Verdict{Lost: 1}},
		"twice":                   {slices.Concat(turn(0, 0), turn(0, 1), turn(0, 0), turn(1, 0), turn(1, 1)), history.Verdict{Twice: 1}},
		"two at once":             {slices.Concat([]history.Step{begin(0, 0), begin(0, 1), end(0, 0), end(0, 1)}, turn(1, 0), turn(1, 1)), history.Verdict{Overlaps: 1}},
		"two at once, both wrong": {slices.Concat([]history.Step{begin(0, 1), begin(0, 0), end(0, 0), end(0, 1)}, turn(1, 0), turn(1, 1)), history.Verdict{OutOfOrder: 1, Overlaps: 1}},
		"not sent":                {slices.Concat(turn(0, 0), turn(0, 1), turn(1, 0), turn(1, 1), []history.Step{begin(2, 0)}), history.Verdict{Unknown: 1}},
		"nothing":                 {nil, history.Verdict{Lost: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := history.Check(2, 2, c.steps); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
