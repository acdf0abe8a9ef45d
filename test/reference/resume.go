package reference

import (
	"cmp"
	"slices"
)

// Resume has the marks and counts of interrupted turns.
type Resume struct {
	Pending       bool
	Reason        string
	Marked        int64
	Interruptions int // in a row
	Counted       int // the last counted turn
	Suspended     bool

	atLarge    inARow // what a suspension leaves
	runs       int    // interrupted ones in a row, also with progress
	progressed []int  // the turns of dead owners that are only in runs
	drained    bool   // a drain was counted
	crashes    []int  // the counted turns of dead owners
}

// inARow counts interruptions in a row.
type inARow struct{ interruptions, runs int }

// interrupted marks and counts the running turn, whoever ends it early. StuckLimit in a row suspend
// the session, or ten times as many that were not counted. What is not counted is a lost lease, a run with progress, and a drain
// by a worker that is older than the last counted drain. It returns false if the turn was counted before, or if the session is
// suspended, and keeps its record.
func (s *Session) interrupted(reason string, older bool) bool {
	r := &s.Resume
	if r.Suspended || r.Counted == s.Run.Fence {
		return false
	}
	r.Counted = s.Run.Fence
	r.Pending, r.Reason, r.Marked = true, reason, s.Now
	if reason == "lease_lost" {
		return true
	}
	if older && r.drained {
		return true
	}
	r.runs++
	counted := !s.progressed()
	if counted {
		r.Interruptions++
		r.drained = r.drained || reason != "crash"
	}
	r.Suspended = counted && r.Interruptions >= s.Config.StuckLimit || r.runs >= 10*s.Config.StuckLimit
	return true
}

// excused marks the running turn without counting it. Its owner lost the lease, and lives.
func (s *Session) excused() {
	r := &s.Resume
	if r.Suspended || r.Counted == s.Run.Fence {
		return
	}
	r.Counted, r.Pending, r.Reason, r.Marked = s.Run.Fence, true, "lease_lost", s.Now
}

// Survive is called by an owner that lost its claim and lives, so this was no death. If somebody
// recovered the turn, that count is undone. It ends the claim.
func (s *Session) Survive(h *Claim) string {
	r, turn := &s.Run, h.Turn.Number
	if r.Fence == turn && r.Phase != Idle && r.Phase != Parked {
		r.Survived = true
		if s.Owner == h.token || s.Owner == inDoubt {
			s.Owner = 0
			s.Index.wake(s.Now, s.Now)
		}
		return Lost
	}
	for _, id := range h.parts {
		if m := s.Messages[id]; m != nil && (m.State == Pending || m.State == Active) && takeBack(&m.diedIn, turn) {
			m.Deaths--
		}
	}
	m := &s.Resume
	counted := !m.Suspended && takeBack(&m.crashes, turn)
	if counted {
		m.Interruptions--
	}
	if counted || !m.Suspended && takeBack(&m.progressed, turn) {
		m.runs--
		if m.Counted == turn && m.Reason == "crash" {
			m.Reason = "lease_lost"
		}
	}
	return Lost
}

func takeBack(turns *[]int, turn int) (was bool) {
	i := slices.Index(*turns, turn)
	if i >= 0 {
		*turns = slices.Delete(*turns, i, i+1)
	}
	return i >= 0
}

// progressed reports whether the running turn has ended a step.
func (s *Session) progressed() bool { return s.Journal != nil && s.Journal.Progress == s.Run.Fence }

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

// SuspendOutside is pkg/resume's Suspend: the next message begins another transcript.
func (s *Session) SuspendOutside() bool {
	if s.Known {
		s.Resume.Suspended, s.Resume.atLarge = true, inARow{}
	}
	return s.Known
}

// ClearOutside is pkg/resume's Clear: it removes a mark.
func (s *Session) ClearOutside() bool {
	was := s.Resume.Pending
	s.Resume.unmark()
	return was
}

// leaveMark removes what belongs to the transcript before.
func (s *Session) leaveMark() {
	s.Resume.unmark()
	s.Resume.Suspended, s.Resume.atLarge = false, inARow{}
}
