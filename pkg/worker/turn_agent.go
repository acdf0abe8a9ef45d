package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// prepare makes the agent's input and promotes the turn from starting to running. After an error
// the agent must not be started: the turn may have been stopped meanwhile.
func (t *turnRun) prepare() (in *agent.Turn, err error) {
	in = &agent.Turn{
		Session: t.Session, TranscriptID: t.TranscriptID, ID: t.ID, Fence: t.Fence,
		Messages:    make([]session.Message, 0, 1),
		Redelivered: t.Redelivered > 0, Attempt: t.Attempt, Throttled: t.Throttled,
		Host: agent.Host{Emit: t.output.Emit, Ask: t.questions.ask, Wait: t.questions.wait, StartStep: t.output.StartStep, EndStep: t.output.EndStep, Lease: t.claim.Lease()},
	}
	for _, m := range t.Messages() {
		in.Messages = append(in.Messages, m.Message.Said())
		in.TraceParent = cmp.Or(in.TraceParent, m.Message.TraceParent)
	}
	if t.trace != nil {
		in.TraceParent = t.trace.TraceParent()
	}
	if t.steering != nil {
		in.Host.Steers = t.steering.offers
	}
	// An earlier run of this turn, or of the one before it, was interrupted.
	resumed := t.Resume != "" || t.Redelivered > 0 || t.Carries != ""
	immediate := t.queue.Config().Immediate
	if !immediate || resumed || len(t.Dropped) > 0 {
		if err := t.recall(in, resumed); err != nil {
			return in, agent.Retryable(err)
		}
	}
	if immediate {
		return in, t.mayStart()
	}
	if err := t.mayStart(); err != nil {
		return in, err
	}
	if err := t.claim.Promote(t.claim.Lease().Context()); err != nil {
		return in, err
	}
	if t.claim.SteerWaits() {
		t.steering.wake()
	}
	return in, t.mayStart()
}

// runAgent starts the agent and waits for it.
func (t *turnRun) runAgent(in *agent.Turn) (result agent.Result, err error) {
	t.ran = true
	t.reportStart()
	timeout := time.AfterFunc(t.timeout-t.output.Ran(), func() {
		t.cancel(fmt.Errorf("%w: ended after %s", errTimeout, t.timeout))
	})
	defer timeout.Stop()
	defer func() {
		if p := recover(); p != nil {
			err = t.panicked("the agent", p)
		}
	}()
	run := t.agent.Run
	if t.warm != nil {
		chosen, err := t.warm.get(t.ctx, in)
		if err == nil {
			err = t.mayStart()
		}
		if err != nil {
			return result, err
		}
		run = chosen.Run
	}
	return run(t.ctx, in)
}

// recall gives the agent its history: the transcript, the work of an earlier run of this
// message, and a note about it.
func (t *turnRun) recall(in *agent.Turn, resumed bool) error {
	stored, err := t.claim.History(t.claim.Lease().Context())
	if err != nil {
		return err
	}
	if stored.Older > 0 {
		t.log.Info("the transcript is long: the agent does not get its oldest entries", "given", len(stored.Entries), "older", stored.Older)
	}
	in.History, in.State = agent.Remembered(stored.Entries, in.Messages), stored.State
	t.output.FoundState(stored.State)
	earlier := stored.Earlier
	if earlier != nil {
		in.Steps = t.output.TakeOver(earlier)
	}
	switch {
	case earlier == nil, len(earlier.Steps) > 0 && !t.served.Continues:
	case len(earlier.Steps) > 0:
		var recap []session.Entry
		recap, in.Kept = t.output.GoOn(earlier)
		in.History, in.Messages = append(in.History, recap...), in.Messages[:len(t.output.Lead())]
		if again := t.unheard(in.Kept); t.steering != nil && len(again) > 0 {
			t.steering.offerAgain(again)
		}
		t.log.Info("the turn goes on", "message", t.Message.ID, "reason", t.Resume, "steps", len(earlier.Steps), "entries", len(in.Kept))
		return nil // without a note: it sees what it has done
	case len(earlier.Entries) > 0:
		t.output.Inherit(earlier)
		earlier.Entries[len(earlier.Entries)-1].Interrupted = true
		in.History = append(in.History, earlier.Entries...)
	}
	in.Note = resume.Note(resume.Facts{
		Record:    stored.Mark,
		Freshness: t.opts.resumeFreshness,
		History:   in.History,
		Dropped:   stored.Dropped,
		Omitted:   stored.Omitted,
	})
	t.noted = len(t.Dropped)
	if resumed {
		t.log.Info("the turn is resumed", "message", t.Message.ID, "reason", t.Resume, "entries", len(t.output.Unfinished().Entries))
	}
	return nil
}

// unheard returns the messages that earlier runs have steered in and of which their output, kept, does not tell. If the
// agent takes no steers, they go back.
func (t *turnRun) unheard(kept []session.Entry) (messages []protocol.Taken) {
	for _, m := range t.Messages()[len(t.output.Lead()):] {
		if !slices.ContainsFunc(kept, func(e session.Entry) bool { return e.Role == session.RoleUser && e.Message == m.Message.ID }) {
			messages = append(messages, m)
			if t.steering == nil || t.Ends != nil {
				t.unoffered = append(t.unoffered, m.Message.ID)
			}
		}
	}
	return messages
}

// mayStart returns why the agent must not be started any more, or nil. It checks the lease
// itself, because the context ends a little later, and a worker that was stopped may come here
// long after.
func (t *turnRun) mayStart() error {
	if err := t.claim.Lease().Held(); err != nil {
		return err
	}
	return context.Cause(t.ctx)
}
