package engine

import (
	"context"
	"time"

	"turnstile/pkg/agent"
)

// warmUp gets the turn a warm agent: the session's, or a new one.
func (t *turn) warmUp(ctx context.Context, in agent.Turn) error {
	warm := t.served.w.warm
	now, signature := seen{t.SessionID, t.Entries}, warm.warmer.Signature()
	kept := warm.take(t.Session)
	v := judge(kept, signature, now)
	switch v {
	case reuse:
		kept.seen = kept.seen.entering(now)
		t.warm = kept
		t.log.Debug("the warm agent is used again")
		return nil
	case buildFirst:
	default:
		select {
		case <-warm.close(kept):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	t.log.Debug("a warm agent is built", "why", v)
	if warm.stateless {
		now.entries = uncounted
	}
	built, err := warm.warmer.Warm(ctx, in)
	if err != nil {
		return err
	}
	t.warm = &warmAgent{Warm: built, session: t.Session, signature: signature, seen: now}
	return t.mayStart()
}

// keepAgent puts by the warm agent of a turn that ended well and writes so many
// entries. It comes before the end is written: by the time that the end is known,
// the session's next turn may have begun on another slot.
func (t *turn) keepAgent(entries int) {
	if t.warm == nil {
		return
	}
	if t.served.w.warm.most == 0 {
		t.endAgent()
		return
	}
	t.warm.seen = t.warm.seen.rebased(seen{t.SessionID, t.Entries + int64(entries)})
	t.kept = true
	t.served.w.warm.keep(t.warm)
}

// dropAgent takes back what keepAgent gave: the turn's end could not be written.
// An agent that the session's next turn here has got already was judged there.
func (t *turn) dropAgent() {
	if t.warm != nil && t.served.w.warm.takeBack(t.warm) {
		t.served.w.warm.close(t.warm)
	}
}

// endAgent closes the warm agent of a turn that did not end well. It waits, since
// the sentinel is given up only after nothing of the agent is left: but not for a
// session that is another's already, nor for longer than a turn may take.
func (t *turn) endAgent() {
	if t.warm == nil {
		return
	}
	closed := t.served.w.warm.close(t.warm)
	t.warm = nil
	patience := time.NewTimer(t.served.w.opts.AgentTimeout)
	defer patience.Stop()
	select {
	case <-closed:
	case <-t.hold.Lease().Context().Done():
	case <-patience.C:
		t.log.Error("the warm agent does not close; its session goes on without it")
	}
}
