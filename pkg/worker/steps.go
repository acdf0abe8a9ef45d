package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// The bounds of a turn's steps. The transcript's entries of tools have their inputs and outputs again.
const (
	stepKeyMost  = 512
	stepMost     = 1 << 20 // bytes of one result
	stepsMost    = 8 << 20 // bytes of all records
	stepsNumber  = 5000
	shownOfInput = 200 // bytes of an input in an error
)

// stepRecord is a step as the journal has it.
type stepRecord struct {
	State  string          `json:"state"` // started, ended or failed: it may run again
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Turn   string          `json:"turn"`            // the run that started it
	Equal  int             `json:"equal,omitempty"` // how many steps with this name and input came before it
	At     int64           `json:"at"`              // when it started, ms by Redis' clock
	Took   int64           `json:"took,omitempty"`
	Hidden bool            `json:"hidden,omitempty"`
	Named  bool            `json:"named,omitempty"` // the user knows that its end is unknown

	size int // of this as JSON, in the journal
}

// The states of a stored step.
const (
	stepStarted = "started"
	stepEnded   = "ended"
	stepFailed  = "failed"
)

// unknown reports whether an earlier run has begun the step, and nobody knows its end. Another version may have
// more states.
func (s stepRecord) unknown() bool {
	return s.size > 0 && s.State != stepEnded && s.State != stepFailed
}

// steps keep the steps of a running turn, see agent.Step.
type steps struct {
	recorder  *recorder
	continues bool // the agent goes on where its last step ended

	mu      sync.Mutex
	known   map[string]stepRecord // of all runs
	used    map[string]bool       // in this run
	counted map[string]bool       // the waits whose values are in bytes
	equal   map[string]int        // the next step's stepRecord.Equal, by name and input
	bytes   int

	parked bool // the turn is parked: no further step begins
}

// lock locks s.mu, and makes the maps the first time: most turns have no steps.
func (s *steps) lock() {
	s.mu.Lock()
	if s.known == nil {
		s.known, s.used, s.counted, s.equal = map[string]stepRecord{}, map[string]bool{}, map[string]bool{}, map[string]int{}
	}
}

// takeOver adds the steps of earlier runs, and returns those that have ended.
func (s *steps) takeOver(j *protocol.Journal) (ended []agent.StepRecord) {
	s.lock()
	defer s.mu.Unlock()
	for key, text := range j.Steps {
		var r stepRecord
		if json.Unmarshal([]byte(text), &r) != nil {
			r = stepRecord{} // of another version: it may have happened
		}
		r.size = len(text)
		s.known[key], s.bytes = r, s.bytes+r.size
		s.equal[same(r)] = max(s.equal[same(r)], r.Equal+1)
		if r.State == stepEnded {
			ended = append(ended, agent.StepRecord{Key: key, State: agent.StepDone, Output: r.Output, Error: r.Error, Turn: r.Turn})
		}
	}
	return ended
}

// start is the agent's StartStep.
func (s *steps) start(ctx context.Context, spec agent.StepSpec) (agent.StepRecord, error) {
	if ctx.Err() != nil {
		return agent.StepRecord{}, context.Cause(ctx)
	}
	announced := spec.Started()
	before, step, err := s.use(spec)
	if err != nil {
		return agent.StepRecord{}, err
	}
	record := agent.StepRecord{Key: spec.Key, State: agent.StepNew, Turn: step.Turn, IdempotencyKey: s.idempotencyKey(step)}
	if before.State == stepEnded {
		record.State, record.Output, record.Error, record.Turn = agent.StepDone, before.Output, before.Error, before.Turn
		s.replay(announced, spec, before)
		return record, nil
	}
	if !spec.Hidden {
		s.recorder.announce(announced)
	}
	if before.unknown() {
		record.State, record.Turn = agent.StepUnknown, before.Turn
		return record, s.name(spec, before, step)
	}
	if spec.Permit != nil {
		if err := spec.Permit(ctx); err != nil {
			return agent.StepRecord{}, err
		}
		step.At = s.recorder.redisNow()
		s.lock()
		s.known[spec.Key] = step
		s.mu.Unlock()
	}
	if spec.Safe {
		return record, nil
	}
	err = s.store(spec.Key, step, nil)
	record.IdempotencyKey = s.idempotencyKey(step) // the first write gives the turn its origin
	return record, err
}

// use notes that this run comes to a step. It returns what is stored of it, and its record in this run.
func (s *steps) use(spec agent.StepSpec) (before, step stepRecord, err error) {
	step = stepRecord{
		State: stepStarted, Name: nameOf(spec), Input: canonical(spec.Input), Turn: s.recorder.turn.ID, At: s.recorder.redisNow(), Hidden: spec.Hidden,
	}
	switch {
	case !validKey(spec.Key):
		return before, step, fmt.Errorf("%w: the key %.100q is no line of 1 to %d bytes", agent.ErrStep, spec.Key, stepKeyMost)
	case len(step.Name)+len(step.Input) > stepMost:
		return before, step, fmt.Errorf("%w: the input of step %q has %d bytes, at most %d are kept", agent.ErrJournalFull, spec.Key, len(step.Input), stepMost)
	}
	s.lock()
	defer s.mu.Unlock()
	if s.parked {
		return before, step, agent.ErrParked
	}
	if s.used[spec.Key] {
		return before, step, fmt.Errorf("%w: the key %q is used twice: give each step of a turn its own", agent.ErrStep, spec.Key)
	}
	before, stored := s.known[spec.Key]
	switch {
	case stored && before.Name != "" && same(before) != same(step):
		return before, step, fmt.Errorf("%w: step %q is %s in this run, and was %s in an earlier one: its key or its input must be the same",
			agent.ErrStep, spec.Key, shown(step), shown(before))
	case !stored && (s.bytes > stepsMost || len(s.known) >= stepsNumber):
		return before, step, fmt.Errorf("%w: it has %d steps with %d bytes", agent.ErrJournalFull, len(s.known), s.bytes)
	case stored:
		step.Equal, step.size = before.Equal, before.size
	default:
		step.Equal = s.equal[same(step)]
		s.equal[same(step)]++
	}
	if before.unknown() && !spec.RunAgain && !spec.Safe {
		step.Turn = before.Turn // nobody runs it again
	}
	s.used[spec.Key] = true
	if before.State != stepEnded {
		s.known[spec.Key] = step
	}
	return before, step, nil
}

// replay shows a step of an earlier run, unless it stands in the transcript.
func (s *steps) replay(announced agent.Event, spec agent.StepSpec, before stepRecord) {
	if spec.Hidden || s.continues {
		return
	}
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	s.recorder.replays = true
	defer func() { s.recorder.replays = false }()
	s.recorder.add(announced)
	s.recorder.ended(spec.Ended(agent.StepEnd{Output: before.Output, Error: before.Error}), before)
}

// name says once, to the user and in the log, that nobody knows whether a step has happened. What the user is shown
// is stored with a note that it was.
func (s *steps) name(spec agent.StepSpec, before, step stepRecord) error {
	if before.Named {
		return nil
	}
	again := spec.RunAgain || spec.Safe
	s.recorder.log.Warn("a step was started by an earlier run of the turn, and its end is unknown", "step", spec.Key, "name", nameOf(spec), "runs_again", again)
	if again || spec.Hidden {
		return nil
	}
	step.Named = true
	return s.store(spec.Key, step, func() {
		s.recorder.send(session.Event{
			Type: session.EventNotice, Turn: s.recorder.turn.ID, CallID: spec.Started().CallID,
			Text: nameOf(spec) + " was started before an interruption, and may have happened: please check.",
		})
	})
}

// end is the agent's EndStep. ctx may be over.
func (s *steps) end(_ context.Context, spec agent.StepSpec, e agent.StepEnd) error {
	var full error
	if size := len(e.Output) + len(e.Error); size > stepMost {
		full = fmt.Errorf("%w: the result of step %q has %d bytes, at most %d are kept", agent.ErrJournalFull, spec.Key, size, stepMost)
		e = agent.StepEnd{Error: "it has ended; its result was too large to be kept"}
	}
	s.lock()
	step := s.known[spec.Key]
	if !s.used[spec.Key] || step.State != stepStarted {
		s.mu.Unlock()
		return fmt.Errorf("%w: step %q ends, and is not running", agent.ErrStep, spec.Key)
	}
	s.known[spec.Key] = stepRecord{State: stepEnded}
	s.mu.Unlock()
	end := spec.Ended(e)
	shown := storable(end) // as the record has it
	step.State, step.Output, step.Error = stepEnded, shown.Output, e.Error
	if e.Again {
		step.State = stepFailed
	}
	step.Took = max(s.recorder.redisNow()-step.At, 0)
	if spec.Hidden {
		return errors.Join(s.store(spec.Key, step, nil), full)
	}
	return errors.Join(s.store(spec.Key, step, func() { s.recorder.ended(end, step) }), full)
}

// store writes a step's record with the events that show sends under the recorder's lock; nil: none.
func (s *steps) store(key string, step stepRecord, show func()) error {
	text, err := encode(step)
	if err != nil {
		return fmt.Errorf("%w: step %q: %w", agent.ErrStep, key, err)
	}
	s.lock()
	s.bytes += len(text) - step.size
	if step.size = len(text); step.State == stepStarted {
		s.known[key] = step
	}
	s.mu.Unlock()
	return s.recorder.keep(key, step, text, show)
}

// note stores a step that only says that the turn has waited, unless the journal has it.
func (s *steps) note(key string) error {
	s.lock()
	stored, full := s.known[key].size > 0, s.bytes+protocol.ValueMost > stepsMost || len(s.known) >= stepsNumber
	s.mu.Unlock()
	switch {
	case stored:
		return nil
	case full:
		return fmt.Errorf("%w: it has no room for what a wait may bring, %d bytes", agent.ErrJournalFull, protocol.ValueMost)
	}
	err := s.store(key, stepRecord{State: stepStarted, Name: "waits", Turn: s.recorder.turn.ID, At: s.recorder.redisNow(), Hidden: true}, nil)
	if err != nil { // it may be tried again in this run
		s.lock()
		delete(s.known, key)
		s.mu.Unlock()
	}
	return err
}

// hold reports whether the turn may be parked: no step that may have effects has begun in this run, and not ended.
// With parks none begins any more.
func (s *steps) hold(parks bool) bool {
	s.lock()
	defer s.mu.Unlock()
	for key := range s.used {
		if r := s.known[key]; r.State == stepStarted && r.size > 0 {
			return false
		}
	}
	s.parked = s.parked || parks
	return true
}

// idempotencyKey is the same in every run of the turn, and after /resume.
func (s *steps) idempotencyKey(step stepRecord) string {
	s.recorder.mu.Lock()
	origin := s.recorder.journal.origin
	s.recorder.mu.Unlock()
	if origin == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", origin, same(step), step.Equal))
	return hex.EncodeToString(sum[:16])
}

// same is equal for steps that do the same.
func same(step stepRecord) string { return step.Name + "\x00" + string(step.Input) }

// encode returns JSON whose parts are the same bytes as before.
func encode(v any) (string, error) {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// canonical returns JSON without the blanks that have no meaning. Text that is none becomes a string.
func canonical(input json.RawMessage) json.RawMessage {
	var text bytes.Buffer
	switch {
	case len(input) == 0:
		return nil
	case json.Compact(&text, input) != nil || tooDeep(input):
		return quoted(input)
	}
	return text.Bytes()
}

func shown(step stepRecord) string {
	text := string(step.Input)
	if len(text) > shownOfInput {
		text = strings.ToValidUTF8(text[:shownOfInput], "") + "..."
	}
	return fmt.Sprintf("%s(%s)", step.Name, text)
}

func validKey(key string) bool {
	return key != "" && len(key) <= stepKeyMost && utf8.ValidString(key) && !strings.ContainsFunc(key, unprintable)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func nameOf(spec agent.StepSpec) string { return strings.ToValidUTF8(spec.Started().Name, "\uFFFD") }
