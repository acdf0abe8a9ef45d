package engine

import (
	"log/slog"
	"sync"
	"time"

	"turnstile/internal/protocol"
)

// sessionRun runs the turns of a claimed session, and passes requests, steers and
// decisions on to the running one.
type sessionRun struct {
	claim *protocol.Claim
	deps  *turnDeps
	log   *slog.Logger

	mu        sync.Mutex
	turn      *turnRun // that runs, or nil between two
	requested request  // of a turn that had not begun by then
	drained   error    // set by a drain whose time is up
	notice    string   // for the user, until a turn can tell it
}

// request is a stop, interrupt or rollback of the turn with a fence.
type request struct {
	fence int64
	cause error
}

// run runs the session's turns until there is none left, it has had its share,
// or it is lost. However it ends, the sentinel is released exactly once: by the
// last turn's finish or requeue, or by not being renewed any more.
func (s *sessionRun) run() (last outcome) {
	claimed := time.Now()
	for turns := 1; ; turns++ {
		t := newTurnRun(s.deps, s.claim, s.log, func() bool { return s.deps.share.over(turns, claimed) })
		s.begin(t)
		more, err := t.run()
		s.end()
		last = t.tellEnd(err)
		if err != nil || !more {
			return last
		}
	}
}

// begin lets requests, steers and decisions reach a turn.
func (s *sessionRun) begin(t *turnRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = t
	if s.notice != "" && t.recorder.notice(s.notice) {
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

// hear takes what a signal or a renewal brings for the turn with a fence: a request
// that ends it, now or when it begins; a steer that waits for it; a decision on its
// question.
func (s *sessionRun) hear(fence int64, cause error, steer bool, d protocol.Decided) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.turn != nil && s.turn.Fence == fence:
		s.turn.hear(cause, steer, d)
	case cause != nil:
		s.requested = request{fence, cause}
	}
}

// interrupt ends whatever turn runs, for a drain.
func (s *sessionRun) interrupt(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained = reason
	if s.turn != nil {
		s.turn.interrupt(reason)
	}
}

// notify tells the session's user something.
func (s *sessionRun) notify(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil || !s.turn.recorder.notice(text) {
		s.notice = text
	}
}
