package reference

import "cmp"

// Resume is what is known of turns that were cut off.
type Resume struct {
	Pending       bool
	Reason        string
	Marked        int64
	Interruptions int // in a row
	Counted       int // the turn that was counted last
	Suspended     bool

	atLarge int // what a suspension leaves of the count
}

// interrupted marks and counts the turn that runs, whoever ends it before it is over.
// So many in a row suspend. False: it was counted before, or the session is suspended,
// and keeps its record, or /new has left the conversation that the turn belongs to.
func (s *Session) interrupted(reason string) bool {
	r := &s.Resume
	if r.Suspended || r.Counted == s.Run.Fence || s.Run.Rotated != "" {
		return false
	}
	r.Counted, r.Interruptions = s.Run.Fence, r.Interruptions+1
	r.Suspended = r.Interruptions >= s.Config.StuckLimit
	r.Pending, r.Reason, r.Marked = true, reason, s.Now
	return true
}

// leaveConversation: the next turn is in another one. The mark and the partial were the
// old one's.
func (s *Session) leaveConversation() {
	s.Resume.unmark()
	s.Partial = nil
}

// unmark takes the mark away; what was counted, and a suspension, stay.
func (r *Resume) unmark() { r.Pending, r.Reason, r.Marked = false, "", 0 }

// MarkOutside is pkg/resume's Mark, for other programs. False: nothing has changed.
func (s *Session) MarkOutside(reason string) bool {
	if !s.Known || s.Resume.Suspended {
		return false
	}
	s.Resume.Pending, s.Resume.Reason, s.Resume.Marked = true, cmp.Or(reason, "restart_timeout"), s.Now
	return true
}

// SuspendOutside is pkg/resume's Suspend: the next message begins another conversation.
func (s *Session) SuspendOutside() bool {
	if s.Known {
		s.Resume.Suspended, s.Resume.atLarge = true, 0
	}
	return s.Known
}

// ClearOutside is pkg/resume's Clear: it takes a mark away.
func (s *Session) ClearOutside() bool {
	was := s.Resume.Pending
	s.Resume.unmark()
	return was
}
