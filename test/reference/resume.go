package reference

import "cmp"

// Resume is what is known of interrupted turns.
type Resume struct {
	Pending       bool
	Reason        string
	Marked        int64
	Interruptions int // in a row
	Counted       int // the last counted turn
	Suspended     bool

	atLarge int // the part of the count that a suspension leaves
}

// interrupted marks and counts the running turn, whoever ends it early. StuckLimit in a row suspend
// the session. It returns false if the turn was counted before, if the session is suspended, and
// keeps its record, or if /new has replaced the turn's conversation.
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

// leaveConversation removes the mark and the partial, because the next turn is in another
// conversation.
func (s *Session) leaveConversation() {
	s.Resume.unmark()
	s.Partial = nil
}

// unmark removes the mark. The count and a suspension stay.
func (r *Resume) unmark() { r.Pending, r.Reason, r.Marked = false, "", 0 }

// MarkOutside is pkg/resume's Mark, for other programs. It returns false if nothing has changed.
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

// ClearOutside is pkg/resume's Clear: it removes a mark.
func (s *Session) ClearOutside() bool {
	was := s.Resume.Pending
	s.Resume.unmark()
	return was
}
