package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"turnstile/internal/lease"
	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
)

// served is a session that this worker holds.
type served struct {
	w    *Worker
	hold *protocol.Claim
	log  *slog.Logger

	mu      sync.Mutex
	turn    *turn // that runs, or nil between two
	asked   error // of the turn with this fence, which had not begun when it was asked
	fence   int64
	drained error  // set by a drain whose time is up
	notice  string // for the user, from when there was no turn to tell it in

	outcome outcome // of the last turn; serve's own
}

func newServed(w *Worker, h *protocol.Claim) *served {
	s := &served{w: w, hold: h, log: w.log.With("session", h.Session()), outcome: outcomeFinished}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[s] = struct{}{}
	if w.ended { // while its claim was under way
		s.notice = w.notice(w.drain.reason)
	}
	if w.drain.over {
		s.drained = drainError{w.drain.reason}
	}
	return s
}

// serve runs the session's turns until there is none left, it has had its share,
// or it is lost. However it ends, the sentinel is given up exactly once: by the
// last turn's finish or requeue, or by not being renewed any more.
func (s *served) serve() {
	defer func() {
		s.w.leave(s)
		s.hold.Lease().End()
	}()
	began := time.Now()
	for turns := 1; ; turns++ {
		t := newTurn(s)
		more, err := t.runContained(func() bool { return s.hadItsShare(turns, began) })
		s.end()
		if err != nil {
			s.outcome = outcomeLost
		}
		t.ended(err)
		if err != nil || !more {
			return
		}
	}
}

// hadItsShare reports whether the session should make way for others.
func (s *served) hadItsShare(turns int, began time.Time) bool {
	if s.w.Draining() {
		return true
	}
	if turns < s.w.opts.ShareTurns && time.Since(began) < s.w.opts.ShareTime {
		return false
	}
	return s.w.others.any(s.w.ctx)
}

// begin lets signals reach a turn.
func (s *served) begin(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = t
	if s.notice != "" && t.recorder.notice(s.notice) {
		s.notice = ""
	}
	if s.asked != nil && s.fence == t.Fence {
		t.cancel(s.asked)
	}
	if s.drained != nil {
		t.cancel(s.drained)
	}
}

func (s *served) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = nil
}

// runs reports whether a turn runs.
func (s *served) runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn != nil
}

// ask ends the turn with a fence, now or when it begins.
func (s *served) ask(fence int64, asked error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil && s.turn.Fence == fence {
		s.turn.cancel(asked)
		return
	}
	s.asked, s.fence = asked, fence
}

// drain ends whatever turn runs.
func (s *served) drain(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained = reason
	if s.turn != nil {
		s.turn.cancel(reason)
		s.turn.recorder.checkpoint() // the agent may need its whole grace, or more
	}
}

// notify tells the session's user something.
func (s *served) notify(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil || !s.turn.recorder.notice(text) {
		s.notice = text
	}
}

// turnContext ends with the lease, as agents expect it: with agent.ErrLeaseLost.
func turnContext(lease *lease.Lease) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	held := lease.Context()
	stop := context.AfterFunc(held, func() {
		cancel(fmt.Errorf("%w: %w", agent.ErrLeaseLost, context.Cause(held)))
	})
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}
