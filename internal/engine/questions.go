package engine

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// questions puts the questions of a turn's agent to the user, one after the other.
type questions struct {
	claim    *protocol.Claim
	recorder *recorder
	open     *openQuestions
	timeout  time.Duration // 0: none but the turn's
	containment

	ctx    context.Context // ends with the turn's, or with its agent
	cancel context.CancelCauseFunc
	one    chan struct{} // has room for whoever asks now

	mu       sync.Mutex
	waiting  int // the number of the question that waits for its decision; 0: none does
	decision chan session.Decision
	early    protocol.Decided // to a question whose number was still under way to here
}

func newQuestions(ctx context.Context, r *recorder, open *openQuestions, timeout time.Duration) *questions {
	q := &questions{
		claim: r.claim, recorder: r, open: open, timeout: max(0, timeout), containment: r.containment,
		one: make(chan struct{}, 1),
	}
	q.ctx, q.cancel = context.WithCancelCause(ctx)
	return q
}

// stop ends the questions and waits for them, once: one that came to Redis after the
// turn's end would be the next turn's.
func (q *questions) stop() {
	q.cancel(errOver)
	q.one <- struct{}{} // nobody asks any more
}

// ask is agent.Ask. Agents call it on goroutines of their own, where nobody else stops a
// panic.
func (q *questions) ask(ctx context.Context, question agent.Question) (_ agent.Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = q.panicked("a question", p)
			q.fail(err)
		}
	}()
	// The turn's end ends every question, whatever the agent passes.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(q.ctx, func() { cancel(context.Cause(q.ctx)) })()
	select {
	case q.one <- struct{}{}:
		defer func() { <-q.one }()
	case <-ctx.Done():
		return agent.Answer{}, context.Cause(ctx)
	}
	if q.ctx.Err() != nil { // both were so
		return agent.Answer{}, context.Cause(q.ctx)
	}
	d, err := q.put(ctx, question)
	if err != nil {
		q.withdraw()
		return agent.Answer{}, err
	}
	// A decision that only a later version knows is a denial.
	return agent.Answer{Allowed: d == session.Allow || d == session.Always, Remember: d == session.Always}, nil
}

// put asks, and waits for the decision. The question is stored before it is told of,
// so that whoever hears of it finds it.
func (q *questions) put(ctx context.Context, question agent.Question) (session.Decision, error) {
	number, err := q.claim.Ask(ctx, session.Question{Name: question.Name, Text: question.Text})
	if err != nil {
		return "", err
	}
	decided := q.await(number)
	defer q.await(0)
	q.recorder.tell(session.Event{
		Type: session.EventPermissionAsked, CallID: strconv.Itoa(number), Name: question.Name, Text: question.Text,
		Input: question.Input, TimeoutMS: q.timeout.Milliseconds(),
	})
	q.open.begin()
	defer q.open.end()
	var overdue <-chan time.Time // 0: never
	if q.timeout > 0 {
		timer := time.NewTimer(q.timeout)
		defer timer.Stop()
		overdue = timer.C
	}
	select {
	case d := <-decided:
		q.tellOf(number, d)
		return d, nil
	case <-overdue:
	case <-ctx.Done():
		q.tellEnd(number, session.DecisionCancelled)
		return "", context.Cause(ctx)
	}
	// Nobody has decided in time: denied. A decision that Redis has by now counts, for
	// its user was told so; only the withdrawal knows of it.
	d, err := q.claim.Withdraw(q.claim.Lease().Context())
	if err != nil {
		q.tellEnd(number, session.DecisionCancelled)
		return "", err
	}
	if d == "" {
		d = session.Deny
		q.log.Info("nobody answered the agent's question: denied", "question", question.Name, "timeout", q.timeout)
		q.recorder.notice(fmt.Sprintf("Nobody answered in %s, so it was denied: %s", q.timeout, question.Name))
	}
	q.tellOf(number, d)
	return d, nil
}

// tellOf tells the session's followers of a decision.
func (q *questions) tellOf(number int, d session.Decision) {
	decision := session.DecisionDenied
	if d == session.Allow || d == session.Always {
		decision = session.DecisionAllowed
	}
	q.tellEnd(number, decision)
}

func (q *questions) tellEnd(number int, decision string) {
	q.recorder.tell(session.Event{Type: session.EventPermissionAnswered, CallID: strconv.Itoa(number), Decision: decision})
}

// withdraw says that nobody waits for a decision any more: the user is not to be told
// that it was one. The question may have been stored even if that failed.
func (q *questions) withdraw() {
	lease := q.claim.Lease()
	if lease.Held() != nil {
		return
	}
	if _, err := q.claim.Withdraw(lease.Context()); err != nil {
		q.log.Warn("a question could not be withdrawn", "error", err)
	}
}

// await lets the decision on a question come in; 0: on none.
func (q *questions) await(number int) <-chan session.Decision {
	q.mu.Lock()
	defer q.mu.Unlock()
	decided := make(chan session.Decision, 1)
	q.waiting, q.decision = number, decided
	if number != 0 && q.early.Question == number {
		q.decide(q.early.Decision)
	}
	return decided
}

// hear takes a user's decision. Only the first on a question counts: renewals repeat it.
func (q *questions) hear(r protocol.Decided) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting != 0 && r.Question == q.waiting {
		q.decide(r.Decision)
		return
	}
	q.early = r
}

// decide ends the wait of the question that waits. q.mu is held.
func (q *questions) decide(d session.Decision) {
	q.decision <- d
	q.waiting = 0
}
