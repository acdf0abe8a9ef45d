package reference

import (
	"fmt"
	"slices"
)

// recoverDead ends or requeues the turn of a dead owner, or a parked one. Its messages go back to the head of the queue,
// unless the turn's end was requested, or too many workers have died with them. A turn that was to be
// interrupted begins again, to end: ends are its messages.
func (s *Session) recoverDead() (ends []string) {
	r := &s.Run
	if r.Phase == Idle {
		return nil
	}
	dead := r.Phase != Parked
	if dead && !r.Announced {
		s.tell(started(r.Fence, r.TranscriptID, r.IDs))
	}
	counts := dead && r.Begun && !r.Survived // unless begun, the reply to its claim may have been lost
	given := s.verdict(counts)
	if r.Rollback {
		r.Entries++ // the state that an agent stored in the turn is lost
	}
	if !dead {
		r.RetryID, r.RetryAt = "", 0 // a message of it may run again
	}
	var back []string
	for _, id := range r.IDs {
		m, end := s.Messages[id], given
		deaths := m.Deaths
		if counts {
			deaths++
		}
		if counts && end.status == "" && r.Phase == Starting && deaths >= s.Config.StuckLimit {
			end = ending{status: "failed", why: fmt.Sprintf("given up: its worker died %d times", deaths)}
			if id == r.IDs[0] {
				s.Journal = nil // no later turn continues it
			}
		}
		if end.status == "" {
			m.Deaths = deaths
			if dead {
				m.Redelivered++
			}
			if counts {
				m.diedIn = append(m.diedIn, r.Fence)
			}
			back = append(back, id)
			continue
		}
		s.archive(id, end.status, end.why)
		s.unsaid = unsaid{id, r.Fence}
		s.ends(end.status, r.Fence, end.why, m)
	}
	if given.again {
		ends = back
		if p := s.Journal; p != nil && len(back) > 0 && p.Messages[0] == back[0] { // the others were not taken
			ends = slices.DeleteFunc(slices.Clone(back), func(id string) bool { return !slices.Contains(p.Messages, id) })
			rest := slices.DeleteFunc(slices.Clone(back), func(id string) bool { return slices.Contains(p.Messages, id) })
			back = slices.Concat(ends, rest)
		}
	}
	s.returns(back)
	if dead || given.status != "" {
		s.closeQuestion()
	}
	if given.status != "" {
		s.Journal = nil
	}
	if dead && r.Rotated != "" && len(ends) == 0 {
		s.leaveConversation()
	}
	// After a suspension by policy the interruptions still count in the new transcript, because the
	// message may be killing the workers.
	if given.suspends {
		s.Resume.Suspended, s.Resume.atLarge = true, inARow{s.Resume.Interruptions, s.Resume.runs}
	}
	r.Phase = Idle
	return ends
}

// inDoubt is the sentinel while an owner that seems dead may still report that it lives.
const inDoubt = -1

// final reports whether the dead owner's turn, if it counts, suspends the session or ends a message.
func (s *Session) final() bool {
	r := &s.Run
	if r.Phase == Idle || r.Phase == Parked || !r.Begun || r.Survived || r.Stop || r.Rollback || r.Interrupt || r.Ending {
		return false
	}
	if r.Phase == Starting {
		return slices.ContainsFunc(r.IDs, func(id string) bool { return s.Messages[id].Deaths+1 >= s.Config.StuckLimit })
	}
	m := &s.Resume
	return !m.Suspended && m.Counted != r.Fence && r.Rotated == "" && (s.Config.CrashSuspends || !s.progressed() && m.Interruptions+1 >= s.Config.StuckLimit || m.runs+1 >= 10*s.Config.StuckLimit)
}

// ending is how the messages of a dead turn end. Without a status they go back to the queue.
type ending struct {
	status, why string
	again       bool // the turn begins again, to end as interrupted
	suspends    bool
}

// verdict returns how a dead turn ends, and counts it.
func (s *Session) verdict(counts bool) ending {
	r := &s.Run
	switch {
	case r.Stop:
		return ending{status: "stopped", why: "stopped by user"}
	case r.Rollback:
		return ending{status: "interrupted", why: "rolled back by a newer message"}
	case r.Interrupt, r.Ending:
		return ending{again: true}
	case r.Survived && r.Phase == Running:
		s.excused()
		return ending{}
	case r.Phase != Running || !counts || !s.interrupted("crash", false):
		return ending{}
	}
	if m := &s.Resume; s.progressed() {
		m.progressed = append(m.progressed, r.Fence)
	} else {
		m.crashes = append(m.crashes, r.Fence)
	}
	if m := s.Resume; m.Suspended {
		n := m.Interruptions
		if n < s.Config.StuckLimit {
			n = m.runs
		}
		return ending{status: "failed", why: fmt.Sprintf("given up: its worker died in %d turns in a row", n)}
	}
	return ending{suspends: s.Config.CrashSuspends}
}
