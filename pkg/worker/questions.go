package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/turnlog"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// questions asks the user the questions of a turn's agent, one after the other.
type questions struct {
	claim     *protocol.Claim
	output    *turnlog.Log
	open      *openQuestions
	timeout   time.Duration // 0: only the turn's
	parks     parks
	approvers []string // of the agent
	containment

	ctx    context.Context // ends with the turn or with its agent
	cancel context.CancelCauseFunc
	one    chan struct{} // holds a token while a question is asked

	parked    error                 // for which question the turn is to be parked; guarded by one
	decisions chan protocol.Decided // the newest that nobody has waited for
}

func newQuestions(ctx context.Context, claim *protocol.Claim, output *turnlog.Log, c containment, open *openQuestions, a *served, p parks) *questions {
	q := &questions{
		claim: claim, output: output, open: open, timeout: max(0, a.askTimeout), parks: p, approvers: a.approvers, containment: c,
		one: make(chan struct{}, 1), decisions: make(chan protocol.Decided, 1),
	}
	q.ctx, q.cancel = context.WithCancelCause(ctx)
	return q
}

// stop ends the questions and waits for them. Call it once. A question that reached Redis after
// the turn's end would belong to the next turn.
func (q *questions) stop() {
	q.cancel(turnlog.ErrOver)
	q.one <- struct{}{} // no further question can be asked
}

// ask is Ask of agent.Host.
func (q *questions) ask(ctx context.Context, question agent.Question) (d session.Decision, err error) {
	err = q.alone(ctx, "a question", func(ctx context.Context) (err error) {
		d, err = q.put(ctx, question)
		return err
	})
	switch cause := context.Cause(q.ctx); {
	case err == nil || cause == nil || errors.Is(err, agent.ErrParked):
	case !errors.Is(cause, errDrain):
		q.output.Unpermitted(question.CallID, "nobody had allowed it when the turn ended")
	case question.Key == "": // with a key it is asked again by its number
		q.output.Unpermitted(question.CallID, "its worker ended before the user had decided; make the same call again, and the user is asked again")
	}
	return d, err
}

// alone asks a question, or waits, when no other one does. Agents call it on their goroutines, where nothing else
// recovers from a panic.
func (q *questions) alone(ctx context.Context, what string, ask func(ctx context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = q.panicked(what, p)
			q.fail(err)
		}
	}()
	if ctx.Value(beginning{}) != nil {
		return fmt.Errorf("%w: a wait's Begin asks or waits", agent.ErrStep)
	}
	// The turn's end ends every question, whatever the agent passes.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(q.ctx, func() { cancel(context.Cause(q.ctx)) })()
	select {
	case q.one <- struct{}{}:
		defer func() { <-q.one }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch { // the select may take the token although the turn is over
	case q.parked != nil:
		return q.parked
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	q.output.Acts()
	if err = ask(ctx); err != nil && !errors.Is(err, agent.ErrParked) {
		q.withdraw()
	}
	if back := q.parks.seat.takeBack(q.ctx); err == nil { // also if the agent's own ctx has ended: it goes on
		err = back
	}
	return err
}

// put stores a question, publishes it, and waits for the decision. It is stored first, so that
// every reader of the event finds the question.
func (q *questions) put(ctx context.Context, question agent.Question) (session.Decision, error) {
	asked := session.Question{Name: question.Name, Text: question.Text, Approvers: question.Approvers, Senders: q.senders()}
	if len(asked.Approvers) == 0 {
		asked.Approvers = q.approvers
	}
	if question.Key != "" {
		if _, err := q.output.BeginWait(question.Key); err != nil {
			return "", err
		}
	}
	known, err := q.claim.AskFor(ctx, question.Key, asked)
	if err != nil {
		return "", err
	}
	number := known.Question
	if known.Decision == protocol.Given {
		return "", fmt.Errorf("%w: the key %q is a wait's", agent.ErrStep, question.Key)
	}
	if known.Decision != "" {
		return q.publishDecision(number, question, known.Decided), nil
	}
	left := protocol.ParkMost
	if q.timeout > 0 {
		left = max(q.timeout-known.Age, 0)
	}
	q.output.Publish(session.Event{
		Type: session.EventQuestionAsked, CallID: strconv.Itoa(number), Name: question.Name, Text: question.Text,
		Input: question.Input, Approvers: asked.Approvers, Timeout: session.Millis(min(q.timeout, left)),
	})
	d, over, err := q.until(ctx, question.Key, parkedError{number: number, left: left}, q.timeout > 0, nil)
	switch {
	case errors.Is(err, agent.ErrParked):
		return "", err
	case err != nil:
		q.publishEnd(number, session.Cancelled, "")
		return "", err
	case !over:
		return q.publishDecision(number, question, d), nil
	}
	// No decision in time is a denial. But a decision that is in Redis by now counts, because its
	// user was notified; only Deny returns it.
	d, err = q.claim.Deny(q.claim.Lease().Context(), question.Key)
	if err != nil {
		q.publishEnd(number, session.Cancelled, "")
		return "", err
	}
	if d.Decision == "" {
		d.Decision = session.Deny
		q.log.Info("no decision on the agent's question in time: denied", "question", question.Name, "timeout", q.timeout)
		q.output.Notice(fmt.Sprintf("No decision in %s, so it was denied: %s", q.timeout, question.Name))
	}
	return q.publishDecision(number, question, d), nil
}

// until waits for the decision on a question, or until it is overdue, if it is timed. It fails with p when the turn is
// parked: after a while, or when the worker drains, but not before sent is closed, nor while a started step has no end. A
// drain does not wait for a decision: a turn that cannot be parked leaves.
func (q *questions) until(ctx context.Context, key string, p parkedError, timed bool, sent <-chan struct{}) (d protocol.Decided, over bool, err error) {
	defer q.asks(ctx, key)()
	deadline, parks := time.Now().Add(p.left), key != "" && q.parks.after > 0
	var overdue, park <-chan time.Time // nil: never
	var drains <-chan struct{}
	if timed {
		overdue = time.After(p.left)
	}
	mayPark := func() {
		if drains = q.parks.drains; parks {
			park = time.After(q.parks.after)
		}
	}
	if sent == nil {
		mayPark()
	}
	for {
		select {
		case <-sent:
			sent = nil
			mayPark()
			continue
		case d := <-q.decisions:
			if d.Question == p.number {
				return d, false, nil
			}
			continue
		case <-overdue:
			return d, true, nil
		case <-ctx.Done():
			return d, false, context.Cause(ctx)
		case <-park:
		case <-drains:
			drains = nil
		}
		switch {
		case !parks:
			q.parks.leave()
			continue
		case !q.output.MayPark(false):
		case q.parks.cap.take(ctx):
			if q.output.MayPark(true) { // else a step has begun this moment
				p.left = time.Until(deadline)
				q.parked = p
				return d, false, p
			}
		case drains == nil:
			q.parks.leave()
		}
		park = time.After(parkRetry)
	}
}

// mostSenders bounds the senders in a question.
const mostSenders = 100

// senders are those of the messages for which the turn began. A steered message gives nobody a say, in no run.
func (q *questions) senders() []string {
	list := []string{} // not nil, which means unknown
	for _, m := range q.claim.Turn().Starters() {
		if who := m.Message.Meta["sender"]; who != "" && !slices.Contains(list, who) && len(list) < mostSenders {
			list = append(list, who)
		}
	}
	return list
}

// publishDecision publishes a decision to the session's followers, and returns it. Decisions of a
// later version are denials.
func (q *questions) publishDecision(number int, question agent.Question, d protocol.Decided) session.Decision {
	if !d.Decision.Allowed() {
		d.Decision = session.Deny
	}
	q.output.Decided(question.CallID, d)
	q.publishEnd(number, d.Decision, d.By)
	return d.Decision
}

func (q *questions) publishEnd(number int, decision session.Decision, by string) {
	q.output.Publish(session.Event{Type: session.EventQuestionAnswered, CallID: strconv.Itoa(number), Decision: decision, By: by})
}

// withdraw takes back a question when nothing waits for it, so that a late decision is refused. It
// is also needed if storing the question failed: it may have been stored.
func (q *questions) withdraw() {
	lease := q.claim.Lease()
	if lease.Held() != nil {
		return
	}
	if _, err := q.claim.Withdraw(lease.Context()); err != nil {
		q.log.Warn("a question could not be withdrawn", "error", err)
	}
}

// apply handles a user's decision. Only the first on a question counts, since renewals repeat it. A decision may come
// before the number of its question. One call at a time.
func (q *questions) apply(d protocol.Decided) {
	select {
	case before := <-q.decisions:
		if before.Question >= d.Question {
			d = before
		}
	default:
	}
	q.decisions <- d
}

// openQuestions counts the questions of all turns that wait for a decision in
// their slots. When they occupy all slots, no other session runs: the log says when that begins
// and ends.
type openQuestions struct {
	slots int
	log   *slog.Logger

	mu   sync.Mutex
	open int // at most one of each turn
}

func (o *openQuestions) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open++; o.open == o.slots {
		o.log.Warn("every slot waits for a user's decision or a program's value, no other session runs: decide with /approve or /deny, or raise the concurrency or the number of waiting agents", "slots", o.slots)
	}
}

func (o *openQuestions) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == o.slots {
		o.log.Info("no longer every slot waits for a decision or a value", "slots", o.slots)
	}
	o.open--
}
