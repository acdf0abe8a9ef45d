package worker

import (
	"context"
	"log/slog"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
)

// warmTurn is one turn's use of a warm agent. It is nil if no agent of the worker is kept warm.
type warmTurn struct {
	*served
	pool  *warmPool
	turn  *protocol.ClaimedTurn
	lease context.Context // the session's
	log   *slog.Logger

	agent  *warmAgent // runs the turn; nil: none, or it was closed
	pooled bool       // it was put back into the pool, and another turn may have taken it
}

// get takes the session's warm agent, or builds one. An agent that is not kept warm runs the turn itself, once the
// warm agent that the session had before is closed.
func (t *warmTurn) get(ctx context.Context, in *agent.Turn) (agent.Agent, error) {
	now, signature := seen{t.turn.TranscriptID, t.turn.Entries}, ""
	if t.warmer != nil {
		signature = t.warmer.Signature()
	}
	had := t.pool.take(t.turn.Session)
	v := judge(had, signature, now)
	if had != nil && had.name != t.name { // agents of all names are in one pool
		v = otherAgent
	}
	switch v {
	case reuse:
		had.seen = had.seen.entering(now)
		t.agent = had
		t.log.Debug("the warm agent is used again")
		return had, nil
	case buildFirst:
	default:
		select {
		case <-t.pool.close(had):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if t.warmer == nil {
		return t.served.agent, nil
	}
	t.log.Debug("a warm agent is built", "why", v)
	if t.Stateless {
		now.entries = uncounted
	}
	built, err := t.warmer.Warm(ctx, in)
	if err != nil {
		return nil, err
	}
	t.agent = &warmAgent{Warm: built, session: t.turn.Session, name: t.name, signature: signature, seen: now}
	return t.agent, nil
}

// returnToPool puts the agent of a turn that succeeded back into the pool. entries is how many the turn
// writes. Call it before the end is written: after that, the session's next turn may begin on
// another slot.
func (t *warmTurn) returnToPool(entries int) {
	if t == nil || t.agent == nil {
		return
	}
	if t.pool.most == 0 {
		t.close()
		return
	}
	t.agent.seen = t.agent.seen.rebased(seen{t.turn.TranscriptID, t.turn.Entries + int64(entries)})
	t.pooled = true
	t.pool.put(t.agent)
}

// drop closes the agent if the turn's end was not written, and this turn still has the agent or it
// is in the pool. If the session's next turn has taken it already, that turn has judged it.
func (t *warmTurn) drop() {
	switch {
	case t == nil || t.agent == nil:
	case !t.pooled:
		t.close()
	case t.pool.takeBack(t.agent):
		t.pool.close(t.agent)
	}
}

// close closes the agent of a turn that did not succeed. It waits, because the session must not be
// released while the agent still runs; but not after the lease is lost, and not longer than a turn
// may take.
func (t *warmTurn) close() {
	if t == nil || t.agent == nil {
		return
	}
	closed := t.pool.close(t.agent)
	t.agent = nil
	over := time.NewTimer(t.timeout)
	defer over.Stop()
	select {
	case <-closed:
	case <-t.lease.Done():
	case <-over.C:
		t.log.Error("the warm agent does not close; its session continues without it")
	}
}
