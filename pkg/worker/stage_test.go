package worker_test

import (
	"context"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// immediate is an agent without a start phase. Others get the history.
type immediate struct{ agent.Func }

func (immediate) Traits() agent.Traits { return agent.Traits{Immediate: true} }

// continuing is a stage whose turns go on after their last step.
type continuing struct{ *stage }

func (continuing) Traits() agent.Traits { return agent.Traits{Continues: true, Steerable: true} }

// stage is an agent with turns that the test plays itself.
type stage struct {
	acts chan *act
	deaf bool // its agents ignore interrupts
	quit chan struct{}
}

func newStage() *stage { return &stage{acts: make(chan *act, 1000)} }

// act is one turn on the stage. It ends when the test ends it, or when its context ends, with the
// cause.
type act struct {
	*agent.Turn
	ctx  context.Context
	over chan verdict
	by   int // the number of the warm agent that plays it
}

type verdict struct {
	result agent.Result
	err    error
}

func (s *stage) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	return s.play(&act{Turn: turn, ctx: ctx, over: make(chan verdict, 1)})
}

func (s *stage) play(a *act) (agent.Result, error) {
	s.acts <- a
	done := a.ctx.Done()
	if s.deaf {
		done = nil
	}
	select {
	case v := <-a.over:
		return v.result, v.err
	case <-done:
	case <-s.quit:
	}
	return agent.Result{}, context.Cause(a.ctx)
}

// next waits for the next turn, which must be of the message with the ID.
func (s *stage) next(t testing.TB, id string) *act {
	t.Helper()
	a := expect.Received(t, "the turn of "+id, s.acts)
	if got := a.Messages[0].ID; got != id {
		t.Fatalf("the turn is that of %s, want %s", got, id)
	}
	return a
}

// inTurn returns a rig with a worker and its stage, which plays the turn of a message m1.
func inTurn(t *testing.T, changes ...change) (*rig, *stage, *act) {
	t.Helper()
	r, s := newRig(t), newStage()
	r.worker(s, changes...)
	r.say("m1", "hello")
	return r, s, s.next(t, "m1")
}

// empty checks that no unexpected turn has begun.
func (s *stage) empty(t testing.TB) {
	t.Helper()
	select {
	case a := <-s.acts:
		t.Errorf("an agent was started for %s", a.Messages[0].ID)
	default:
	}
}

func (a *act) reply(text string) { a.over <- verdict{result: agent.Result{Text: text}} }
func (a *act) fail(err error)    { a.over <- verdict{err: err} }
func (a *act) text(text string)  { a.Emit(agent.Event{Type: session.EventText, Text: text}) }
func (a *act) cause(t testing.TB) error {
	t.Helper()
	select {
	case <-a.ctx.Done():
	case <-time.After(patience):
		t.Fatal("waited in vain for the end of the turn's context")
	}
	return context.Cause(a.ctx)
}
