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

// cutOff marks and counts a turn that was cut off. False: it was counted before.
func (r *Resume) cutOff(turn int, reason string, now int64) bool {
	if r.Counted == turn {
		return false
	}
	r.Pending, r.Reason, r.Marked = true, reason, now
	r.Counted, r.Interruptions = turn, r.Interruptions+1
	return true
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
