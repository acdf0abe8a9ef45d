package turnlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// The bounds of a turn's steps. The transcript's entries of tools have their inputs and outputs again.
const (
	stepKeyMost = 512
	stepMost    = 1 << 20 // bytes of one result
	stepsMost   = 8 << 20 // bytes of all records
	stepsNumber = 5000
)

// steps are those of a turn, see agent.Step.
type steps struct {
	known    map[string]*step  // of all runs, by keys
	equal    map[string]int    // the next step's stepRecord.Equal, by name and input
	bytes    int               // of all records in the journal, and of the values that waits have brought
	changed  map[string]string // records that are not stored yet, JSON by keys
	stepped  bool              // the turn has steps
	progress bool              // a step has ended in this run
	parked   bool              // the turn is parked: no further step begins
	origin   string            // see protocol.Claim.Journal; "" before the first write
	ran      time.Duration     // of earlier runs with steps, until their last writes
}

func newSteps() steps {
	return steps{known: map[string]*step{}, equal: map[string]int{}, changed: map[string]string{}}
}

// StartStep is the agent's StartStep.
func (l *Log) StartStep(ctx context.Context, spec agent.StepSpec) (agent.StepRecord, error) {
	if ctx.Err() != nil {
		return agent.StepRecord{}, context.Cause(ctx)
	}
	before, now, err := l.useStep(spec)
	if err != nil {
		return agent.StepRecord{}, err
	}
	record := agent.StepRecord{Key: spec.Key, State: agent.StepNew, Turn: now.Turn, IdempotencyKey: l.idempotencyKey(now)}
	if before.State == stepEnded {
		record.State, record.Output, record.Error, record.Turn = agent.StepDone, before.Output, before.Error, before.Turn
		l.replay(spec, before)
		return record, nil
	}
	if !spec.Hidden {
		l.announce(spec.Started())
	}
	if before.unknown() {
		record.State, record.Turn = agent.StepUnknown, before.Turn
		return record, l.nameUnknown(spec, before, now)
	}
	if spec.Permit != nil {
		if err := spec.Permit(ctx); err != nil {
			return agent.StepRecord{}, err
		}
		now.At = l.redisNow()
		l.record(func() {
			l.takeDecision(spec, &now.stepRecord)
			l.known[spec.Key].stepRecord = now.stepRecord
		})
	}
	if spec.Safe {
		return record, nil
	}
	err = l.storeStep(spec.Key, now.stepRecord, nil)
	record.IdempotencyKey = l.idempotencyKey(now) // the first write gives the turn its origin
	return record, err
}

// useStep notes that this run comes to a step. It returns what is stored of it, and its record in this run.
func (l *Log) useStep(spec agent.StepSpec) (before, now step, err error) {
	now.stepRecord = stepRecord{
		State: stepStarted, Name: nameOf(spec), Input: canonical(spec.Input), Turn: l.turn.ID, At: l.redisNow(), Hidden: spec.Hidden,
	}
	switch {
	case !validKey(spec.Key):
		return before, now, fmt.Errorf("%w: the key %.100q is no line of 1 to %d bytes", agent.ErrStep, spec.Key, stepKeyMost)
	case len(now.Name)+len(now.Input) > stepMost:
		return before, now, fmt.Errorf("%w: the input of step %q has %d bytes, at most %d are kept", agent.ErrJournalFull, spec.Key, len(now.Input), stepMost)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parked {
		return before, now, agent.ErrParked
	}
	known, stored := l.known[spec.Key]
	if stored {
		before = *known
	}
	switch {
	case before.used:
		return before, now, fmt.Errorf("%w: the key %q is used twice: give each step of a turn its own", agent.ErrStep, spec.Key)
	case stored && before.Name != "" && same(before.stepRecord) != same(now.stepRecord):
		return before, now, fmt.Errorf("%w: step %q is %s in this run, and was %s in an earlier one: its key or its input must be the same",
			agent.ErrStep, spec.Key, shown(now.stepRecord), shown(before.stepRecord))
	case !stored && l.full(0):
		return before, now, fmt.Errorf("%w: it has %d steps with %d bytes", agent.ErrJournalFull, len(l.known), l.bytes)
	case stored:
		now.Equal, now.size, now.Decision, now.By = before.Equal, before.size, before.Decision, before.By
	default:
		now.Equal = l.equal[same(now.stepRecord)]
		l.equal[same(now.stepRecord)]++
	}
	if before.unknown() && !spec.RunAgain && !spec.Safe {
		now.Turn = before.Turn // nobody runs it again
	}
	now.used = true
	use := now
	if before.State == stepEnded {
		use.stepRecord = before.stepRecord
	}
	l.known[spec.Key] = &use
	return before, now, nil
}

// full reports whether the journal has no room for another step, or for that many bytes. l.mu is held.
func (s *steps) full(bytes int) bool { return s.bytes+bytes > stepsMost || len(s.known) >= stepsNumber }

// announce records a step's start, unless an earlier run has shown it.
func (l *Log) announce(e agent.Event) {
	l.record(func() {
		if l.announced[e.CallID] > 0 {
			l.announced[e.CallID]--
			l.trace(e) // the earlier run has traced a step that did not end
			return
		}
		l.add(e)
	})
}

// replay shows a step of an earlier run, unless it stands in the transcript.
func (l *Log) replay(spec agent.StepSpec, before step) {
	if spec.Hidden || l.goesOn {
		return
	}
	l.record(func() {
		l.replays = true
		l.add(spec.Started())
		l.ended(spec.Ended(agent.StepEnd{Output: before.Output, Error: before.Error}), before.stepRecord)
		l.replays = false
	})
}

// ended records a step's end, and notes which run has done it and how long it took. l.mu is held.
func (l *Log) ended(e agent.Event, s stepRecord) {
	l.add(e)
	l.was(e.CallID, s)
}

// nameUnknown says once, to the user and in the log, that nobody knows whether a step has happened. What the user is
// shown is stored with a note that it was.
func (l *Log) nameUnknown(spec agent.StepSpec, before, now step) error {
	if before.Named {
		return nil
	}
	again := spec.RunAgain || spec.Safe
	l.Logger.Warn("a step was started by an earlier run of the turn, and its end is unknown", "step", spec.Key, "name", nameOf(spec), "runs_again", again)
	if again || spec.Hidden {
		return nil
	}
	now.Named = true
	return l.storeStep(spec.Key, now.stepRecord, func() {
		l.send(session.Event{
			Type: session.EventNotice, Turn: l.turn.ID, CallID: spec.Started().CallID,
			Text: nameOf(spec) + " was started before an interruption, and may have happened: please check.",
		})
	})
}

// EndStep is the agent's EndStep. ctx may be over.
func (l *Log) EndStep(_ context.Context, spec agent.StepSpec, e agent.StepEnd) error {
	var full error
	if size := len(e.Output) + len(e.Error); size > stepMost {
		full = fmt.Errorf("%w: the result of step %q has %d bytes, at most %d are kept", agent.ErrJournalFull, spec.Key, size, stepMost)
		e = agent.StepEnd{Error: "it has ended; its result was too large to be kept"}
	}
	now, err := l.takeRunning(spec)
	if err != nil {
		return err
	}
	end := spec.Ended(e)
	now.State, now.Output, now.Error = stepEnded, storable(end).Output, e.Error // as the record has it
	if e.Again {
		now.State = stepFailed
	}
	now.Took = max(l.redisNow()-now.At, 0)
	show := func() { l.ended(end, now) }
	if spec.Hidden {
		show = nil
	}
	return errors.Join(l.storeStep(spec.Key, now, show), full)
}

// takeDecision takes the decision on a running step. l.mu is held.
func (l *Log) takeDecision(spec agent.StepSpec, r *stepRecord) {
	if i, ok := l.running(spec.Started().CallID); ok && l.made[i].Tool.Decision != "" {
		r.Decision, r.By = l.made[i].Tool.Decision, l.made[i].Tool.By
	}
}

// takeRunning returns the record of a running step, which then runs no more.
func (l *Log) takeRunning(spec agent.StepSpec) (r stepRecord, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.known[spec.Key]
	if s == nil || !s.used || s.State != stepStarted {
		return r, fmt.Errorf("%w: step %q ends, and is not running", agent.ErrStep, spec.Key)
	}
	r, s.stepRecord = s.stepRecord, stepRecord{State: stepEnded}
	l.takeDecision(spec, &r)
	return r, nil
}

// storeStep stores the record of a step with the events that show sends; nil: none. It returns after the write, which
// may have the records of several steps.
func (l *Log) storeStep(key string, r stepRecord, show func()) error {
	text, err := encode(r)
	if err != nil {
		return fmt.Errorf("%w: step %q: %w", agent.ErrStep, key, err)
	}
	if !l.record(func() { l.changeStep(key, r, text, show) }) {
		return ErrOver
	}
	l.storing.lock()
	defer l.storing.unlock()
	return l.write(key, false)
}

// changeStep notes the record of a step for the next write, and its events with it, so that no write has only one.
// All items so far stand with it. l.mu is held.
func (l *Log) changeStep(key string, r stepRecord, text string, show func()) {
	l.acts()
	s := l.known[key]
	l.bytes += len(text) - s.size
	if s.size = len(text); r.State == stepStarted {
		s.stepRecord = r
	}
	if show != nil {
		l.hold()
		show()
	}
	l.flushWords()
	l.standing = len(l.made)
	l.changed[key] = text
	l.stepped, l.progress = true, l.progress || r.State != stepStarted
}

// idempotencyKey is the same in every run of the turn, and after /resume.
func (l *Log) idempotencyKey(s step) string {
	return l.hashOfOrigin(fmt.Sprintf("%s\x00%d", same(s.stepRecord), s.Equal))
}

// hashOfOrigin is the same in every run of the turn, and known to nobody who cannot read the turn in Redis; "" before
// the turn has an origin.
func (l *Log) hashOfOrigin(of string) string {
	l.mu.Lock()
	origin := l.origin
	l.mu.Unlock()
	if origin == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(origin + "\x00" + of))
	return hex.EncodeToString(sum[:16])
}

// waitKey is the key of the step that says that the turn has waited. No step of an agent has such a key.
func waitKey(key string) string { return "\x00" + key }

// BeginWait makes the turn one with steps, in its first run with this question or wait: its journal keeps the decision
// or value. It is no progress. secret is what a program needs to end the wait.
func (l *Log) BeginWait(key string) (secret string, err error) {
	if !validKey(key) {
		return "", fmt.Errorf("%w: the key %.100q of a question or wait is no line of 1 to %d bytes", agent.ErrStep, key, stepKeyMost)
	}
	l.mu.Lock()
	stored, full := l.known[waitKey(key)] != nil, l.full(protocol.ValueMost)
	if !stored && !full {
		l.known[waitKey(key)] = &step{}
	}
	l.mu.Unlock()
	switch {
	case stored:
	case full:
		return "", fmt.Errorf("%w: it has no room for what a wait may bring, %d bytes", agent.ErrJournalFull, protocol.ValueMost)
	default:
		err = l.storeStep(waitKey(key), stepRecord{State: stepStarted, Name: "waits", Turn: l.turn.ID, At: l.redisNow(), Hidden: true}, nil)
	}
	if err != nil { // it may be tried again in this run
		l.mu.Lock()
		delete(l.known, waitKey(key))
		l.mu.Unlock()
		return "", err
	}
	if secret = l.hashOfOrigin("wait\x00" + key); secret == "" {
		return "", fmt.Errorf("%w: the turn has no origin", agent.ErrStep)
	}
	return secret, nil
}

// CountValue adds the value of a wait to the bytes of the journal, once in a run.
func (l *Log) CountValue(key string, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.known[waitKey(key)]; !s.counted {
		s.counted, l.bytes = true, l.bytes+bytes
	}
}

// MayPark reports whether the turn may be parked: no step that may have effects has begun in this run, and not ended.
// If it parks, none begins any more.
func (l *Log) MayPark(parks bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.known {
		if s.used && s.State == stepStarted && s.size > 0 {
			return false
		}
	}
	l.parked = l.parked || parks
	return true
}

func nameOf(spec agent.StepSpec) string { return strings.ToValidUTF8(spec.Started().Name, "\uFFFD") }
