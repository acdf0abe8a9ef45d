package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/test/expect"
)

// warmStage is a stage with warm agents. They are numbered in the order of their building.
type warmStage struct {
	*stage
	stateless bool

	mu        sync.Mutex
	signature string
	building  map[int]chan struct{} // delays the building of an agent
	closing   map[int]chan struct{} // delays the closing of an agent
	died      map[int]bool          // ended between two turns
	built     int
	turns     []context.Context // the turns for which the agents were built
	story     []string
}

func newWarmStage() *warmStage {
	return &warmStage{stage: newStage(), building: map[int]chan struct{}{}, closing: map[int]chan struct{}{}, died: map[int]bool{}}
}

func (s *warmStage) Signature() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signature
}

func (s *warmStage) sign(signature string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signature = signature
}

func (s *warmStage) Traits() agent.Traits { return agent.Traits{Stateless: s.stateless} }

func (s *warmStage) Run(context.Context, *agent.Turn) (agent.Result, error) {
	panic("a worker calls the Run of a Warmer")
}

func (s *warmStage) Warm(ctx context.Context, _ *agent.Turn) (agent.Warm, error) {
	s.mu.Lock()
	s.built++
	n := s.built
	gate := s.building[n]
	s.turns = append(s.turns, ctx)
	s.mu.Unlock()
	s.note("build", n, gate)
	return &warmPlayer{s, n}, nil
}

// canceled waits until the turn for which agent n is built is canceled.
func (s *warmStage) canceled(t testing.TB, n int) {
	t.Helper()
	s.mu.Lock()
	turn := s.turns[n-1]
	s.mu.Unlock()
	expect.Soon(t, "the turn of agent "+fmt.Sprint(n)+" to be called off", func() bool { return turn.Err() != nil })
}

// note adds to the story, then waits for the gate.
func (s *warmStage) note(what string, n int, gate chan struct{}) {
	s.mu.Lock()
	s.story = append(s.story, fmt.Sprint(what, " ", n))
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-time.After(patience): // the test has failed
		}
	}
}

// dies makes agent n end while it has no turn.
func (s *warmStage) dies(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.died[n] = true
}

// happened waits for a line of the story.
func (s *warmStage) happened(t testing.TB, line string) {
	t.Helper()
	expect.Soon(t, line, func() bool { return slices.Contains(s.lines(), line) })
}

func (s *warmStage) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.story)
}

// gate delays the building or closing of agent n. Call it before that is reached. The test opens
// the gate by closing it.
func (s *warmStage) gate(of map[int]chan struct{}, n int) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	of[n] = make(chan struct{})
	return of[n]
}

// nextBy is next for a turn that a certain agent must play.
func (s *warmStage) nextBy(t testing.TB, id string, by int) *act {
	t.Helper()
	a := s.next(t, id)
	expect.Equal(t, "the agent of "+id, a.by, by)
	return a
}

// warmPlayer is one warm agent.
type warmPlayer struct {
	stage *warmStage
	n     int
}

func (p *warmPlayer) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	p.stage.note("run", p.n, nil)
	result, err := p.stage.play(&act{Turn: turn, ctx: ctx, over: make(chan verdict, 1), by: p.n})
	if result.Text == "panic" {
		panic("told to")
	}
	return result, err
}

func (p *warmPlayer) Ended() bool {
	p.stage.mu.Lock()
	defer p.stage.mu.Unlock()
	return p.stage.died[p.n]
}

func (p *warmPlayer) Close() error {
	p.stage.mu.Lock()
	gate := p.stage.closing[p.n]
	p.stage.mu.Unlock()
	p.stage.note("close", p.n, gate)
	p.stage.note("closed", p.n, nil)
	return nil
}
