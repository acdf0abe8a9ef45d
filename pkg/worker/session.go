package worker

import (
	"log/slog"
	"sync"
	"time"

	"turnstile/internal/protocol"
)

// sessionRun runs the turns of a claimed session, and passes requests, steers and decisions to
// the running one.
type sessionRun struct {
	claim *protocol.Claim
	deps  *turnDeps
	log   *slog.Logger
	seat  *seat

	mu        sync.Mutex
	turn      *turnRun // the running turn; nil between two turns
	requested request  // for a turn that has not begun yet
	drained   error    // set at the end of a drain's timeout
	notice    string   // for the user, until a turn can publish it
}

// request asks the turn with this fence to stop, be interrupted or be rolled back.
type request struct {
	fence int64
	cause error
}

// run runs the session's turns until there is none left, it has used its share, or its lease is
// lost. The session is released exactly once: when the last turn is finished or parked, or when its
// sentinel expires.
func (s *sessionRun) run() (last outcome) {
	claimed := time.Now()
	for turns := 1; ; turns++ {
		t := newTurnRun(s.deps, s.claim, s.log, s.seat, func() bool { return s.seat.lent.Load() || s.deps.share.over(s.claim.Session(), turns, claimed) })
		s.begin(t)
		more, err := t.run()
		s.end()
		last = t.reportEnd(err)
		if err != nil || !more {
			return last
		}
	}
}

// begin makes t the turn that requests, steers and decisions reach.
func (s *sessionRun) begin(t *turnRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = t
	if s.notice != "" && t.output.Notice(s.notice) {
		s.notice = ""
	}
	if s.requested.cause != nil && s.requested.fence == t.Fence {
		t.cancel(s.requested.cause)
	}
	if s.drained != nil {
		t.cancel(s.drained)
	}
}

func (s *sessionRun) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = nil
}

// runs reports whether a turn runs.
func (s *sessionRun) runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn != nil
}

// apply handles a signal or a renewal for the turn with a fence: a request that ends it,
// now or when it begins; a steer that waits for it; a decision on its question.
func (s *sessionRun) apply(fence int64, cause error, steer bool, d protocol.Decided) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.turn != nil && s.turn.Fence == fence:
		s.turn.apply(cause, steer, d)
	case cause != nil:
		s.requested = request{fence, cause}
	}
}

// interrupt ends the running turn for a drain, and every turn that begins later.
func (s *sessionRun) interrupt(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained = reason
	if s.turn != nil {
		s.turn.interrupt(reason)
	}
}

// notify publishes a text for the session's user, in the next turn if none runs.
func (s *sessionRun) notify(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil || !s.turn.output.Notice(text) {
		s.notice = text
	}
}
