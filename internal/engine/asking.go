package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// asking puts the questions of a turn's agent to the user, one after the other.
type asking struct {
	turn   *turn
	ctx    context.Context // ends with the turn's, or with its agent
	cancel context.CancelCauseFunc
	one    chan struct{} // has room for whoever asks now

	mu      sync.Mutex
	waiting int // the number of the question that waits for its answer; 0: none does
	answer  chan session.Decision
	early   protocol.Decided // to a question whose number was still under way to here
}

func newAsking(t *turn) *asking {
	a := &asking{turn: t, one: make(chan struct{}, 1)}
	a.ctx, a.cancel = context.WithCancelCause(t.ctx)
	return a
}

// stop ends the questions and waits for them, once: one that came to Redis after the
// turn's end would be the next turn's.
func (a *asking) stop() {
	a.cancel(errOver)
	a.one <- struct{}{} // nobody asks any more
}

// ask is agent.Ask. Agents call it on goroutines of their own, where nobody else stops a
// panic.
func (a *asking) ask(ctx context.Context, q agent.Question) (_ agent.Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = a.turn.panicked("a question", p)
			a.turn.cancel(err)
		}
	}()
	// The turn's end ends every question, whatever the agent passes.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.ctx, func() { cancel(context.Cause(a.ctx)) })()
	select {
	case a.one <- struct{}{}:
		defer func() { <-a.one }()
	case <-ctx.Done():
		return agent.Answer{}, context.Cause(ctx)
	}
	if a.ctx.Err() != nil { // both were so
		return agent.Answer{}, context.Cause(a.ctx)
	}
	d, err := a.put(ctx, q)
	if err != nil {
		a.withdraw()
		return agent.Answer{}, err
	}
	// A decision that only a later version knows is no yes.
	return agent.Answer{Allowed: d == session.Allow || d == session.Always, Remember: d == session.Always}, nil
}

// put asks, and waits for the answer. The question is stored before it is told of,
// so that whoever hears of it finds it.
func (a *asking) put(ctx context.Context, q agent.Question) (session.Decision, error) {
	number, err := a.turn.hold.Ask(ctx, session.Question{Name: q.Name, Text: q.Text})
	if err != nil {
		return "", err
	}
	answer := a.await(number)
	defer a.await(0)
	timeout := max(0, a.turn.served.w.opts.AskTimeout)
	a.turn.recorder.asked(number, q, timeout)
	a.turn.served.w.open.begin()
	defer a.turn.served.w.open.end()
	var late <-chan time.Time // 0: never
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case d := <-answer:
		a.turn.recorder.answered(number, d)
		return d, nil
	case <-late:
		return a.overdue(number, q, timeout)
	case <-ctx.Done():
		a.turn.recorder.cancelled(number)
		return "", context.Cause(ctx)
	}
}

// overdue denies a question that nobody has answered in time. Whose answer Redis has
// by now was told that it counts, and it does: only the withdrawal knows.
func (a *asking) overdue(number int, q agent.Question, timeout time.Duration) (session.Decision, error) {
	d, err := a.turn.hold.Withdraw(a.turn.hold.Lease().Context())
	if err != nil {
		a.turn.recorder.cancelled(number)
		return "", err
	}
	if d == "" {
		d = session.Deny
		a.turn.log.Info("nobody answered the agent's question: denied", "question", q.Name, "timeout", timeout)
		a.turn.recorder.notice(fmt.Sprintf("Nobody answered in %s, so it was denied: %s", timeout, q.Name))
	}
	a.turn.recorder.answered(number, d)
	return d, nil
}

// withdraw says that nobody waits for an answer any more: the user is not to be told
// that it was one. The question may have been stored even if that failed.
func (a *asking) withdraw() {
	lease := a.turn.hold.Lease()
	if lease.Held() != nil {
		return
	}
	if _, err := a.turn.hold.Withdraw(lease.Context()); err != nil {
		a.turn.log.Warn("a question could not be withdrawn", "error", err)
	}
}

// await lets the answer to a question come in; 0: to none.
func (a *asking) await(number int) <-chan session.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := make(chan session.Decision, 1)
	a.waiting, a.answer = number, answer
	if number != 0 && a.early.Question == number {
		a.settle(a.early.Decision)
	}
	return answer
}

// take is a reply to a question. Only the first counts: renewals repeat it.
func (a *asking) take(r protocol.Decided) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting != 0 && r.Question == a.waiting {
		a.settle(r.Decision)
		return
	}
	a.early = r
}

// settle is the answer to the question that waits. a.mu is held.
func (a *asking) settle(d session.Decision) {
	a.answer <- d
	a.waiting = 0
}

// reply passes on what the user says to a question of the turn with a fence.
func (s *served) reply(fence int64, r protocol.Decided) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil && s.turn.Fence == fence {
		s.turn.asking.take(r)
	}
}
