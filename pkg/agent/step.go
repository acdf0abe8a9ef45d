package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"turnstile/pkg/session"
)

// StepSpec describes a step: a part of a turn that must not run again once it has ended, such as a
// payment. A worker keeps the steps of a turn in its journal until the turn has ended: if the worker
// dies, the turn's next run gets their results.
type StepSpec struct {
	// Key names the step within its turn, the same in every run. A run uses it once. It is a line of at most
	// 512 bytes.
	Key string

	// Name and CallID are the tool's, for people, events and the transcript. They default to Key.
	Name   string
	CallID string

	// Input is what the step's result depends on. If an earlier run started the step with another one, that
	// is an error, so give the fields of objects the same order in every run.
	Input json.RawMessage

	// Safe: the step has no effects, so its start is not stored, and one that did not end runs again.
	Safe bool

	// RunAgain: a step whose end is unknown runs again, because its receiver knows the idempotency key.
	RunAgain bool

	// Permit is called between the step's announcement and its start, to ask the user. If it fails, the step
	// has not started, and StartStep returns its error; EndStep may store that, so that nobody is asked again.
	// It is not called for a step that an earlier run has started. nil: nobody is asked.
	Permit func(ctx context.Context) error

	// Parallel: see session.ToolUse.
	Parallel bool

	// Sent is for the transcript, see session.Entry.
	Sent *session.Sent

	// Hidden: the step has neither events nor an entry in the transcript.
	Hidden bool
}

// StepState is what is known of a step when a run comes to it.
type StepState string

// The states of a step.
const (
	StepNew     StepState = "new"     // it did not run, or failed and may run again
	StepDone    StepState = "done"    // an earlier run has its result
	StepUnknown StepState = "unknown" // an earlier run started it, and did not store an end: it may have had effects
)

// StepRecord is a step in a turn's journal.
type StepRecord struct {
	Key   string    `json:"key"`
	State StepState `json:"state"`

	// Output is a done step's result, the same bytes but for white space between the JSON's parts. Error is
	// its error, if it failed for good.
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`

	// Turn is the ID of the run that started it.
	Turn string `json:"turn,omitempty"`

	// IdempotencyKey is for the receiver of the step's effects: the same in every run of the turn, another
	// for every other step. A Safe step may have none. It authorizes nothing.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// StepEnd is how a step ended.
type StepEnd struct {
	Output json.RawMessage
	Error  string // it failed
	Again  bool   // after an error: the step may run again, in the turn's next run
}

// Errors of steps.
var (
	// ErrStep is wrapped by the error of a step that is used wrongly: its key twice in one run, or with
	// another input than in an earlier one.
	ErrStep = errors.New("wrong use of a step")

	// ErrStepUnknown is the result of a step of which only the start is known. It may have had effects.
	ErrStepUnknown = errors.New("the step was started, and may have happened: its end is unknown")

	// ErrJournalFull refuses a step's start, or its result, if that is more than the journal takes.
	ErrJournalFull = errors.New("the turn's journal is full")
)

// Step runs fn once in the life of a turn, however often workers die: it stores fn's result, and the
// turn's next run gets it without running fn. The result is stored as JSON.
//
// fn's error and Permit's are stored, too, and the next run gets their text. If the error wraps ErrRetryable,
// the next run runs fn again. An error after the end of ctx is not stored: the step's end is unknown then.
//
// A step of which only the start is known fails with ErrStepUnknown, and does so in every later run. With
// Safe or RunAgain fn runs again.
//
// The code between steps runs again in each run, so it should do the same each time.
func Step[R any](ctx context.Context, t *Turn, s StepSpec, fn func(ctx context.Context, idempotencyKey string) (R, error)) (result R, err error) {
	started := s
	var refused error
	if s.Permit != nil {
		started.Permit = func(ctx context.Context) error {
			refused = s.Permit(ctx)
			return refused
		}
	}
	record, err := t.StartStep(ctx, started)
	switch {
	case errors.Is(refused, ErrParked):
		return result, refused
	case refused != nil && ctx.Err() == nil:
		return result, t.failed(ctx, s, refused)
	case err != nil:
		return result, err
	case record.State == StepDone && record.Error == ErrStepUnknown.Error():
		return result, ErrStepUnknown
	case record.State == StepDone && record.Error != "":
		return result, errors.New(record.Error)
	case record.State == StepDone:
		if err := json.Unmarshal(record.Output, &result); err != nil {
			return result, fmt.Errorf("%w: step %q has another kind of result since an earlier run: %w", ErrStep, s.Key, err)
		}
		return result, nil
	case record.State == StepUnknown && !s.RunAgain && !s.Safe:
		return result, t.failed(ctx, s, ErrStepUnknown)
	}
	if result, err = fn(ctx, record.IdempotencyKey); err != nil {
		if ctx.Err() == nil && !errors.Is(err, ErrParked) {
			err = t.failed(ctx, s, err)
		}
		return result, err
	}
	output, err := json.Marshal(result)
	if err != nil {
		return result, t.failed(ctx, s, fmt.Errorf("%w: the result of step %q: %w", ErrStep, s.Key, err))
	}
	return result, t.EndStep(ctx, s, StepEnd{Output: output})
}

// failed ends a step with an error, and returns it, or why it could not be stored.
func (t *Turn) failed(ctx context.Context, s StepSpec, err error) error {
	if stored := t.EndStep(ctx, s, StepEnd{Error: cmp.Or(err.Error(), "it failed"), Again: errors.Is(err, ErrRetryable)}); stored != nil {
		return stored
	}
	return err
}

// StartStep says that a step begins, and returns what is known of it, after its start is stored. A step that
// is done is over: there is no end to report. Every other one needs EndStep, unless ctx ends before. One that
// is Safe and Hidden may be left open when the turn ends: nothing of it is stored.
//
// Package agent's Step does both. Adapters call these for the steps of programs.
func (t *Turn) StartStep(ctx context.Context, s StepSpec) (StepRecord, error) {
	if t.Host.StartStep != nil {
		return t.Host.StartStep(ctx, s)
	}
	if !s.Hidden {
		t.Emit(s.Started())
	}
	if s.Permit != nil {
		if err := s.Permit(ctx); err != nil {
			return StepRecord{}, err
		}
	}
	return StepRecord{Key: s.Key, State: StepNew, IdempotencyKey: t.ID + "/" + s.Key}, nil
}

// EndStep says how a step ended. It returns after that is stored, also if ctx has ended. Unless the end says
// Again, the step then never runs again.
func (t *Turn) EndStep(ctx context.Context, s StepSpec, e StepEnd) error {
	if t.Host.EndStep != nil {
		return t.Host.EndStep(ctx, s, e)
	}
	if !s.Hidden {
		t.Emit(s.Ended(e))
	}
	return nil
}

// Started is the event of the step's start.
func (s StepSpec) Started() Event {
	return Event{Type: session.EventToolStart, Name: s.name(), CallID: s.call(), Input: s.Input, Parallel: s.Parallel, Sent: s.Sent}
}

// Ended is the event of the step's end.
func (s StepSpec) Ended(e StepEnd) Event {
	end := Event{Type: session.EventToolEnd, CallID: s.call(), Output: e.Output, Error: e.Error}
	if e.Error != "" {
		end.Output = nil
	}
	return end
}

func (s StepSpec) name() string {
	if s.Name != "" {
		return s.Name
	}
	return s.Key
}

func (s StepSpec) call() string {
	if s.CallID != "" {
		return s.CallID
	}
	return s.Key
}
