package worker

import (
	"context"
	"sync"

	"turnstile/pkg/agent"
	"turnstile/pkg/sessionqueue"
)

// asking puts the questions of a turn's agent to the user, one after the other.
type asking struct {
	turn *turn
	one  chan struct{} // has room for whoever asks now

	mu     sync.Mutex
	number int // of the last question
	answer chan sessionqueue.Decision
}

func newAsking(t *turn) *asking {
	return &asking{turn: t, one: make(chan struct{}, 1)}
}

// ask is agent.Ask. The question is stored before it is told of, so that whoever
// hears of it finds it.
func (a *asking) ask(ctx context.Context, q agent.Question) (agent.Answer, error) {
	// The turn's end ends every question, whatever the agent passes.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.turn.ctx, func() { cancel(context.Cause(a.turn.ctx)) })()
	select {
	case a.one <- struct{}{}:
		defer func() { <-a.one }()
	case <-ctx.Done():
		return agent.Answer{}, context.Cause(ctx)
	}
	number, answer := a.next()
	hold := a.turn.hold
	if err := hold.Ask(ctx, sessionqueue.Question{Number: number, Name: q.Name, Text: q.Text}); err != nil {
		return agent.Answer{}, err
	}
	a.turn.recorder.asked(number, q)
	select {
	case d := <-answer:
		a.turn.recorder.answered(number, d)
		return agent.Answer{Allowed: d != sessionqueue.Deny, Remember: d == sessionqueue.Always}, nil
	case <-ctx.Done():
		a.turn.recorder.answered(number, "")
		if a.turn.ctx.Err() == nil { // else the turn's end says it
			if err := hold.Withdraw(hold.Lease().Context()); err != nil {
				a.turn.log.Warn("a question could not be withdrawn", "error", err)
			}
		}
		return agent.Answer{}, context.Cause(ctx)
	}
}

func (a *asking) next() (int, <-chan sessionqueue.Decision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number++
	a.answer = make(chan sessionqueue.Decision, 1)
	return a.number, a.answer
}

// take is a reply to a question. Only the first counts: renewals repeat it.
func (a *asking) take(r sessionqueue.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Question != a.number || a.answer == nil {
		return
	}
	a.answer <- r.Decision
	a.answer = nil
}

// reply passes on what the user says to a question of the turn with a fence.
func (s *served) reply(fence int64, r sessionqueue.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil && s.turn.Fence == fence {
		s.turn.asking.take(r)
	}
}
