package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

var errDied = errors.New("the worker died")

// journal is what outlives the workers of one turn: its steps, its entries, and the steers that nobody has
// accepted. A run dies at a point that die chooses; after it, nothing of the run is stored or shown.
type journal struct {
	*testing.T
	die  func(n int, point string) bool // nil: no run dies
	full string                         // the key of a step whose end does not fit

	forgets bool // the agent's state is not stored before the turn's end

	mu        sync.Mutex
	steps     map[string]*kept
	state     json.RawMessage
	entries   []session.Entry
	stored    int // entries; the rest goes with the run
	waiting   []steer
	questions []string
	usages    int
	runs      int

	// Of the current run.
	dead    bool
	kill    context.CancelCauseFunc
	used    map[string]bool
	points  []string
	offered chan agent.Steer
}

// kept is a step. entry is its place, or -1.
type kept struct {
	input   string
	entry   int
	started bool
	ended   bool
	end     agent.StepEnd
}

// steer is a message that arrives while the model writes a response.
type steer struct {
	in      int
	message session.Message
}

func newJournal(t *testing.T) *journal { return &journal{T: t, steps: map[string]*kept{}} }

// point is a moment at which a run may die. It reports whether the run still lives.
func (j *journal) point(name string) bool {
	if !j.dead {
		j.points = append(j.points, name)
		if j.die != nil && j.die(len(j.points), name) {
			j.dead = true
			j.kill(errDied)
		}
	}
	return !j.dead
}

// reach is a point of a response that the model's server writes.
func (j *journal) reach(name string) modelserver.Step {
	return modelserver.Do(func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.point(name)
	})
}

// steer sends a message while the n-th response is written.
func (j *journal) steer(n int, id string) modelserver.Step {
	return modelserver.Do(func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, e := range j.entries {
			if e.Message == id {
				j.Errorf("steer %s is in the transcript before response %d", id, n)
			}
		}
		s := steer{n, session.Message{ID: id, Text: "and " + id, Meta: map[string]string{"sender": id}}}
		if !slices.ContainsFunc(j.waiting, func(w steer) bool { return w.message.ID == id }) {
			j.waiting = append(j.waiting, s)
		}
		j.offer(s)
	})
}

func (j *journal) offer(s steer) {
	j.offered <- agent.NewSteer(s.message, func() { j.accept(s) })
}

func (j *journal) accept(s steer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.point("before " + s.message.ID) {
		return
	}
	m := s.message
	j.entries = append(j.entries, session.Entry{Role: session.RoleUser, Text: m.Text, Message: m.ID, Meta: m.Meta, Attachments: m.Attachments})
	j.waiting = slices.DeleteFunc(j.waiting, func(w steer) bool { return w.message.ID == m.ID })
	j.stored = len(j.entries)
	j.point("after " + m.ID)
}

// run gives the turn to an agent, and reports whether it died.
func (j *journal) run(r *rig, tn *agent.Turn) (died bool, err error) {
	ctx, cancel := context.WithCancelCause(j.Context())
	defer cancel(nil)
	j.mu.Lock()
	j.dead, j.kill, j.used, j.points, j.offered = false, cancel, map[string]bool{}, nil, make(chan agent.Steer, 8)
	j.entries = j.entries[:j.stored]
	turn := *tn
	j.runs++
	turn.ID, turn.Fence = fmt.Sprint(tn.ID, ".", j.runs), tn.Fence+int64(j.runs) // as a claim gives them
	if !j.forgets {
		turn.State = j.state
	}
	for key, s := range j.steps {
		if !s.started && !s.ended {
			delete(j.steps, key)
		}
		if s.ended {
			turn.Steps = append(turn.Steps, agent.StepRecord{Key: key, State: agent.StepDone, Output: s.end.Output, Error: s.end.Error})
		}
	}
	if len(turn.Steps) > 0 {
		turn.Note = ""
	}
	data, err := json.Marshal(j.entries)
	expect.OK(j, err)
	expect.OK(j, json.Unmarshal(data, &turn.Kept))
	for _, s := range j.waiting {
		if w := j.steps[fmt.Sprintf("response:%d", s.in)]; w != nil && w.ended {
			j.offer(s)
		}
	}
	turn.Host = agent.Host{Emit: j.emit, Ask: j.ask, Steers: j.offered, StartStep: j.start, EndStep: j.end}
	j.mu.Unlock()
	_, err = r.agent.Run(ctx, &turn)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dead {
		if err != nil && !errors.Is(err, errDied) { // nil: it had everything when its context ended
			j.Errorf("the run died with %v", err)
		}
		return true, nil
	}
	if err == nil {
		j.stored = len(j.entries)
	}
	return false, err
}

// finish runs the turn until no run dies, and returns the number of runs and the last one's error.
func (j *journal) finish(r *rig, tn *agent.Turn) (runs int, err error) {
	for died := true; died && runs < 100; runs++ {
		died, err = j.run(r, tn)
	}
	return runs, err
}

func (j *journal) emit(e agent.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dead {
		return
	}
	switch e.Type {
	case session.EventToolStart, session.EventToolEnd:
		if e.Client {
			j.entries = append(j.entries, used(session.ToolUse{Name: e.Name, CallID: e.CallID, Input: e.Input, Client: true}))
			return
		}
		j.Errorf("the agent emits %+v: its step does", e)
	case session.EventState:
		j.state = e.Data
	case session.EventUsage:
		j.usages++
	case session.EventText:
		if last := len(j.entries) - 1; last >= j.stored && j.entries[last].Role == session.RoleAssistant {
			j.entries[last].Text += e.Text
		} else {
			j.entries = append(j.entries, assistant(e.Text))
		}
	}
}

func (j *journal) ask(_ context.Context, q agent.Question) (session.Decision, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.point("asked " + q.CallID) {
		return "", errDied
	}
	j.questions = append(j.questions, q.CallID+" "+string(q.Input))
	decision := session.Allow
	if q.Name == "denied" {
		decision = session.Deny
	}
	if !j.point("answered " + q.CallID) {
		return "", errDied
	}
	return decision, nil
}

func (j *journal) start(ctx context.Context, s agent.StepSpec) (agent.StepRecord, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.point("start " + s.Key) {
		return agent.StepRecord{}, errDied
	}
	if j.used[s.Key] {
		return agent.StepRecord{}, fmt.Errorf("%w: %s twice", agent.ErrStep, s.Key)
	}
	j.used[s.Key] = true
	record := agent.StepRecord{Key: s.Key, State: agent.StepNew, IdempotencyKey: "key of " + s.Key}
	step := j.steps[s.Key]
	switch {
	case step != nil && step.input != j.compact(s.Input):
		return record, fmt.Errorf("%w: %s with another input", agent.ErrStep, s.Key)
	case step != nil && step.ended:
		record.State, record.Output, record.Error = agent.StepDone, step.end.Output, step.end.Error
		return record, nil
	case step != nil:
		record.State = agent.StepUnknown
		return record, nil
	}
	step = &kept{input: j.compact(s.Input), entry: -1}
	j.steps[s.Key] = step
	if !s.Hidden {
		step.entry = len(j.entries)
		j.entries = append(j.entries, used(session.ToolUse{Name: s.Name, CallID: s.CallID, Input: s.Input}))
	}
	if s.Permit != nil {
		j.mu.Unlock()
		err := s.Permit(ctx)
		j.mu.Lock()
		if err != nil {
			return agent.StepRecord{}, err
		}
	}
	if s.Safe {
		return record, nil
	}
	if !j.point("before the start of " + s.Key) {
		return agent.StepRecord{}, errDied
	}
	step.started = true
	j.stored = len(j.entries)
	if !j.point("after the start of " + s.Key) {
		return agent.StepRecord{}, errDied
	}
	return record, nil
}

func (j *journal) end(_ context.Context, s agent.StepSpec, e agent.StepEnd) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.point("before the end of " + s.Key) {
		return errDied
	}
	if j.full == s.Key {
		return fmt.Errorf("%w: the result of %s has %d bytes", agent.ErrJournalFull, s.Key, len(e.Output))
	}
	step := j.steps[s.Key]
	step.ended, step.end = true, e
	if len(e.Output) > 0 {
		step.end.Output = json.RawMessage(j.compact(e.Output))
	}
	if step.entry >= 0 {
		use := j.entries[step.entry].Tool
		use.Output, use.Error = step.end.Output, e.Error
	}
	j.stored = len(j.entries)
	if !j.point("after the end of " + s.Key) {
		return errDied
	}
	return nil
}

// compact is JSON as a store keeps it.
func (j *journal) compact(input json.RawMessage) string {
	if len(input) == 0 {
		return ""
	}
	var b bytes.Buffer
	expect.OK(j, json.Compact(&b, input))
	return b.String()
}

// transcript is the entries, one a line.
func (j *journal) transcript() string {
	var b strings.Builder
	for _, e := range j.entries {
		fmt.Fprintf(&b, "%s: %s", e.Role, e.Text)
		if u := e.Tool; u != nil {
			fmt.Fprintf(&b, "%s %s %s %s%s", u.CallID, u.Name, u.Input, u.Output, u.Error)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// dieAfter lets the worker die once, after a point.
func (j *journal) dieAfter(what string) {
	died := false
	j.die = func(_ int, point string) bool {
		dies := !died && point == "after "+what
		died = died || dies
		return dies
	}
}
