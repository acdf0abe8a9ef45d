package worker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/turnlog"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// turnDeps has a worker's parts that its turns use.
type turnDeps struct {
	opts        Config
	agents      servedAgents
	pool        *warmPool // nil: no agent is kept warm
	queue       *protocol.Consumer
	share       *share
	open        *openQuestions
	wakeUps     *lostWakeUps
	tokens      *usedTokens
	parked      *parkedCap
	pauses      *pauses
	drainReason func() reason
	quiet       func() bool
	drains      <-chan struct{} // closed when the worker drains
	elsewhere   *elsewhere
}

// turnRun is the run of one turn on this worker.
type turnRun struct {
	protocol.ClaimedTurn
	*turnDeps
	*served // without an agent: none may run the turn
	claim   *protocol.Claim
	release func() bool // reports, at the end, whether to release the session though messages wait

	containment
	ctx    context.Context // the context of the agent's run
	cancel context.CancelCauseFunc

	output    *turnlog.Log
	trace     TurnTrace // nil: there is none
	questions *questions
	steering  *steering // nil: the agent takes no steers
	warm      *warmTurn // nil: no agent is kept warm

	unoffered []string // messages that were steered in earlier, and that this agent cannot be offered

	noted int  // how many dropped messages the agent's note mentions
	ran   bool // the agent was started
	end   ending
}

func newTurnRun(d *turnDeps, claim *protocol.Claim, log *slog.Logger, s *seat, release func() bool) *turnRun {
	t := &turnRun{ClaimedTurn: claim.Turn(), turnDeps: d, claim: claim, release: release}
	t.log = log.With("turn", t.ID, "fence", t.Fence)
	if t.served = d.agents.of(t.ClaimedTurn.Agent, t.Session); t.served == nil {
		t.served = &served{} // dismiss ends the turn
	}
	if t.Carries == protocol.CarriesSteps {
		d.parked.goesOn(claim.Lease().Context(), t.Session)
	}
	if t.Carries == protocol.CarriesSteps && !t.served.Continues && t.Ends == nil {
		claim.BeginAgain()
		t.ClaimedTurn = claim.Turn()
	}
	t.ctx, t.cancel = turnContext(claim.Lease())
	t.fail = t.cancel
	t.output = turnlog.New(turnlog.Config{
		Turn: &t.ClaimedTurn, Store: claim, Context: claim.Lease().Context(), GoesOn: t.served.Continues, CheckpointEvery: d.opts.checkpointInterval,
		Logger: t.log, Contain: t.contain, Began: func() { t.pauses.works(t.name, t.Started) },
		Used: func(u session.Usage) { t.tokens.report(t.ClaimedTurn.Agent, u) }, Trace: t.traced,
	})
	t.follow()
	claim.AskWithin(max(0, t.served.askTimeout))
	t.questions = newQuestions(t.ctx, claim, t.output, t.containment, d.open, t.served, parks{
		after: d.opts.ParkAfter, cap: d.parked, drains: d.drains, seat: s, leave: func() { t.interrupt(drainError{d.drainReason()}) },
	})
	if t.Steerable {
		t.steering = newSteering(claim, t.output, t.containment, func(m protocol.Taken) bool {
			_, refused := t.refusal(m)
			return refused
		})
	}
	if d.pool != nil {
		t.warm = &warmTurn{served: t.served, pool: d.pool, turn: &t.ClaimedTurn, lease: claim.Lease().Context(), log: t.log}
	}
	return t
}

// run runs the turn and writes its end. more is true if the next turn runs under the same claim.
// After an error the end was not written.
func (t *turnRun) run() (more bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			more, err = false, t.endPanicked(t.panicked("the turn", p))
		}
	}()
	defer t.cancel(turnlog.ErrOver)
	defer t.steering.stop()
	if t.Ends != nil || slices.ContainsFunc(t.Messages(), func(m protocol.Taken) bool { return m.Redelivered > 0 }) {
		// The message may have killed its last worker. A death counts only if the worker has
		// renewed, because a claim with a lost reply is not a death. Renew at once, so that a
		// message that kills at once counts. If this renewal fails, the next regular one does the
		// same for longer turns.
		t.queue.Renew(t.claim.Lease().Context(), []*protocol.Claim{t.claim})
	}
	if t.Ends != nil {
		return t.endUnrun()
	}
	if end, refused, err := t.dismiss(); refused || err != nil {
		t.steering.stop() // a later steer would go into the next turn
		t.output.Stop()
		if err != nil {
			return false, err
		}
		return t.finish(end)
	}
	var result agent.Result
	in, err := t.prepare()
	if err == nil {
		result, err = t.runAgent(in)
	}
	t.steering.stop()
	t.questions.stop()
	if err != nil {
		t.warm.close()
	}
	t.output.Stop()
	return t.writeEnd(result, err)
}

// apply handles a signal or a renewal for this turn.
func (t *turnRun) apply(request error, steer bool, d protocol.Decided) {
	switch {
	case request != nil:
		t.cancel(request)
	case steer:
		t.steering.wake()
	}
	if d.Question != 0 {
		t.questions.apply(d)
	}
}

// interrupt ends the agent's run for a drain. It takes a checkpoint at once, because the agent
// may use its whole grace, or more.
func (t *turnRun) interrupt(reason error) {
	t.cancel(reason)
	t.output.Checkpoint()
}

// dismiss archives messages that must not run, and removes them from the turn. If all must not
// run, refused is true, and end is the turn's end.
func (t *turnRun) dismiss() (end protocol.End, refused bool, err error) {
	messages := t.Messages()
	left := len(messages)
	for _, m := range messages {
		end, bad := t.refusal(m)
		switch {
		case !bad:
		case left == 1:
			return end, true, nil
		default:
			if err := t.claim.Dismiss(t.claim.Lease().Context(), m, end); err != nil {
				return end, false, err
			}
			left--
		}
	}
	if left < len(messages) {
		// Not the whole turn: signals read its other fields concurrently.
		now := t.claim.Turn()
		t.Taken, t.Collected = now.Taken, now.Collected
	}
	return protocol.End{}, false, nil
}

// refusal returns the end of a message that must not run.
func (t *turnRun) refusal(m protocol.Taken) (end protocol.End, refused bool) {
	if m.Err != nil {
		return protocol.End{Status: session.StatusFailed, Code: session.CodeInvalidMessage, Error: "the message is invalid", Detail: m.Err.Error()}, true
	}
	if t.agent == nil {
		return protocol.End{
			Status: session.StatusFailed, Code: session.CodeInternal, Error: "the session's agent is not its own",
			Detail: fmt.Sprintf("agent %q may not run this session", t.ClaimedTurn.Agent),
		}, true
	}
	if m.Message.Request != nil && !t.Instructable {
		return protocol.End{
			Status: session.StatusFailed, Code: session.CodeInvalidMessage, Error: "the agent takes no instructions, tools or settings of clients",
			Detail: "the message has a request for the model: TURNSTILE_INSTRUCT=true lets the agent model do what it says",
		}, true
	}
	limit := time.Duration(m.Message.ExpiresIn)
	if most := t.opts.MessageMaxAge; most > 0 && (limit == 0 || most < limit) {
		limit = most
	}
	if limit > 0 && m.Age > limit && t.Carries == "" { // a turn that has done something does not expire
		return protocol.End{
			Status: session.StatusExpired,
			Error:  fmt.Sprintf("expired: it waited %s, at most %s was allowed", m.Age.Round(time.Millisecond), limit),
		}, true
	}
	return protocol.End{}, false
}
