package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"turnstile/pkg/agent"
)

// stepLine is a line of a command's stdin: what is known of a step that the command has begun.
type stepLine struct {
	Type string `json:"type"` // step
	agent.StepRecord
}

// stateRefused is the state of a step that has not begun.
const stateRefused agent.StepState = "refused"

// storedLine is a line of a command's stdin: the end of a step is stored, unless there is an error.
type storedLine struct {
	Type  string `json:"type"` // stored
	Key   string `json:"key"`
	Error string `json:"error,omitempty"`
}

// maxStepLines is how many lines about steps may have no response at a time.
const maxStepLines = 1000

// steps carries out a command's lines about steps, and writes the responses to its stdin. The lines are read
// by one goroutine.
type steps struct {
	turn  *agent.Turn
	ctx   context.Context
	w     io.Writer
	open  sync.WaitGroup
	count atomic.Int32 // of the lines without a response

	starting sync.WaitGroup // of the starts that are not stored
	mu       sync.Mutex
	begun    map[string]agent.StepSpec // without an end, by key
	told     []func()                  // see whenOneBegins
}

// whenOneBegins calls do, perhaps several times, when a step has begun whose line is still to come.
func (s *steps) whenOneBegins(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, do)
}

// start begins a step. It returns once the step is announced, so that steps keep their order, and the starts
// are stored at once. Its error says why the line cannot be taken.
func (s *steps) start(l line) error {
	if err := s.another(); err != nil {
		return err
	}
	announced := make(chan struct{})
	announce := sync.OnceFunc(func() { close(announced) })
	spec := agent.StepSpec{
		Key: l.Key, Name: l.Name, CallID: l.CallID, Input: l.Input, Safe: l.Safe, RunAgain: l.RunAgain, Hidden: l.Hidden,
		Permit: func(context.Context) error { announce(); return nil }, // it comes between the announcement and the start
	}
	s.mu.Lock()
	before := s.told
	s.mu.Unlock()
	s.starting.Add(1)
	s.open.Go(func() {
		defer s.count.Add(-1)
		record := s.begin(spec)
		if record.State != stateRefused {
			for _, do := range before {
				do()
			}
		}
		announce()
		s.starting.Done()
		s.write(stepLine{"step", record})
	})
	<-announced
	return nil
}

func (s *steps) begin(spec agent.StepSpec) agent.StepRecord {
	record, err := s.turn.StartStep(s.ctx, spec)
	if err != nil {
		return agent.StepRecord{Key: spec.Key, State: stateRefused, Error: err.Error()}
	}
	if record.State != agent.StepDone {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.begun[spec.Key] = spec
	}
	return record
}

// end ends a step. Its error says why the line cannot be taken.
func (s *steps) end(l line) error {
	s.starting.Wait()
	s.mu.Lock()
	spec, ok := s.begun[l.Key]
	delete(s.begun, l.Key)
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("a tool_end with the key %.100q: no such step runs", l.Key)
	}
	if interrupted := s.ctx.Err() != nil; interrupted && l.Error != "" {
		return nil // that may be the reason, so nobody knows the step's end
	}
	if err := s.another(); err != nil {
		return err
	}
	stored := storedLine{Type: "stored", Key: l.Key}
	if err := s.turn.EndStep(s.ctx, spec, agent.StepEnd{Output: l.Output, Error: l.Error, Again: l.Again}); err != nil {
		stored.Error = err.Error()
	}
	s.open.Go(func() {
		defer s.count.Add(-1)
		s.write(stored)
	})
	return nil
}

// another counts a line that gets a response.
func (s *steps) another() error {
	if s.count.Add(1) > maxStepLines {
		return fmt.Errorf("more than %d lines about steps have no response yet: read stdin", maxStepLines)
	}
	return nil
}

// write writes a response. A command that has closed its stdin does not need it.
func (s *steps) write(response any) {
	if data, err := json.Marshal(response); err == nil {
		_, _ = s.w.Write(append(data, '\n'))
	}
}

// checkEnd returns why a tool_end is wrong, or nil.
func checkEnd(l line) error {
	switch {
	case l.CallID == "" && l.Key == "":
		return errors.New("a tool_end needs the call_id of its tool_start, or the key of its step")
	case l.Error != "" && l.Output != nil:
		return errors.New("a tool_end has an output or an error, not both")
	case l.Error == "" && l.Again:
		return errors.New("a tool_end with again needs an error")
	}
	return nil
}
