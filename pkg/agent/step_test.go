package agent

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// A step runs its function only if it must, and stores how it ended.
func TestStep(t *testing.T) {
	t.Parallel()
	declined, busy, full := errors.New("declined"), Retryable(errors.New("busy")), errors.New("full")
	unknown := StepEnd{Error: ErrStepUnknown.Error()}
	for name, c := range map[string]struct {
		spec    StepSpec
		record  StepRecord
		refused error // by StartStep
		fails   error // of the function
		stored  error // of EndStep

		runs   bool
		result int
		err    error
		end    *StepEnd
	}{
		"new":            {record: StepRecord{State: StepNew}, runs: true, result: 7, end: &StepEnd{Output: json.RawMessage("7")}},
		"fails":          {record: StepRecord{State: StepNew}, fails: declined, runs: true, err: declined, end: &StepEnd{Error: "declined"}},
		"may run again":  {record: StepRecord{State: StepNew}, fails: busy, runs: true, err: busy, end: &StepEnd{Error: "busy", Again: true}},
		"fails mutely":   {record: StepRecord{State: StepNew}, fails: errors.New(""), runs: true, err: errors.New(""), end: &StepEnd{Error: "it failed"}},
		"not stored":     {record: StepRecord{State: StepNew}, stored: full, runs: true, result: 7, err: full, end: &StepEnd{Output: json.RawMessage("7")}},
		"done":           {record: StepRecord{State: StepDone, Output: json.RawMessage("5")}, result: 5},
		"failed":         {record: StepRecord{State: StepDone, Error: "declined"}, err: errors.New("declined")},
		"other result":   {record: StepRecord{State: StepDone, Output: json.RawMessage(`"5"`)}, err: ErrStep},
		"unknown":        {record: StepRecord{State: StepUnknown}, err: ErrStepUnknown, end: &unknown},
		"still unknown":  {record: StepRecord{State: StepDone, Error: ErrStepUnknown.Error()}, err: ErrStepUnknown},
		"unknown, again": {spec: StepSpec{RunAgain: true}, record: StepRecord{State: StepUnknown}, runs: true, result: 7, end: &StepEnd{Output: json.RawMessage("7")}},
		"unknown, safe":  {spec: StepSpec{Safe: true}, record: StepRecord{State: StepUnknown}, runs: true, result: 7, end: &StepEnd{Output: json.RawMessage("7")}},
		"no start":       {refused: full, err: full},
		"permitted":      {spec: StepSpec{Permit: func(context.Context) error { return nil }}, record: StepRecord{State: StepNew}, runs: true, result: 7, end: &StepEnd{Output: json.RawMessage("7")}},
		"denied":         {spec: StepSpec{Permit: func(context.Context) error { return declined }}, err: declined, end: &StepEnd{Error: "declined"}},
	} {
		var end *StepEnd
		turn := &Turn{Host: Host{
			StartStep: func(ctx context.Context, s StepSpec) (StepRecord, error) {
				if s.Permit != nil && s.Permit(ctx) != nil {
					return StepRecord{}, declined
				}
				c.record.IdempotencyKey = "id"
				return c.record, c.refused
			},
			EndStep: func(_ context.Context, _ StepSpec, e StepEnd) error { end = &e; return c.stored },
		}}
		ran := false
		result, err := Step(t.Context(), turn, c.spec, func(_ context.Context, key string) (int, error) {
			if ran = true; key != "id" {
				t.Errorf("%s: the idempotency key is %q", name, key)
			}
			if c.fails != nil {
				return 0, c.fails
			}
			return 7, nil
		})
		if ran != c.runs || result != c.result || !reflect.DeepEqual(end, c.end) || !errors.Is(err, c.err) && (c.err == nil || err == nil || err.Error() != c.err.Error()) {
			t.Errorf("%s: ran %t, result %d, error %v, end %+v", name, ran, result, err, end)
		}
	}
}

// Nobody knows how a step ended that failed after the turn's context ended. A result is one all the same.
func TestInterruptedStep(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		turn := &Turn{Host: Host{EndStep: func(context.Context, StepSpec, StepEnd) error { ended = true; return nil }}}
		_, err := Step(ctx, turn, StepSpec{Key: "a"}, func(ctx context.Context, _ string) (int, error) {
			cancel()
			if fails {
				return 0, ctx.Err()
			}
			return 7, nil
		})
		if ended == fails || (err != nil) != fails {
			t.Errorf("fails %t: ended %t, error %v", fails, ended, err)
		}
	}
}

// A result that is no JSON fails the step for good: its function must not run again.
func TestStepWithoutJSON(t *testing.T) {
	t.Parallel()
	var end StepEnd
	turn := &Turn{Host: Host{EndStep: func(_ context.Context, _ StepSpec, e StepEnd) error { end = e; return nil }}}
	_, err := Step(t.Context(), turn, StepSpec{Key: "a"}, func(context.Context, string) (func(), error) { return func() {}, nil })
	if !errors.Is(err, ErrStep) || !strings.Contains(end.Error, `the result of step "a"`) || end.Again {
		t.Errorf("%v, %+v", err, end)
	}
}
