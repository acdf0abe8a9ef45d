package reference

import "fmt"

// inDoubt is the sentinel while an owner that seems dead may still report that it lives.
const inDoubt = -1

// confirmed reports whether the dead owner's run counts. Unless it began, the reply to its claim may have been lost.
func (s *Session) confirmed() bool { return s.Run.Begun && !s.Run.Survived }

// final reports whether the dead owner's run, if it counts, suspends the session or ends the turn.
func (s *Session) final() bool {
	r, m, limit := &s.Run, &s.Resume, s.Config.StuckLimit
	switch last := s.Messages[r.IDs[0]].Deaths+1 >= limit; {
	case !s.confirmed():
		return false
	case r.Phase == Starting:
		return last
	case m.Suspended || m.Counted == r.Fence:
		return false
	default:
		return s.Config.CrashSuspends || m.runs+1 >= 10*limit || !s.progressed() && (last || m.Interruptions+1 >= limit)
	}
}

// death counts the death of the turn's owner. ends: the turn is given up for this reason. suspends: it goes on in
// another transcript. apart: its messages are turns of their own from now on, because one of them may kill workers.
func (s *Session) death() (ends string, suspends, apart bool) {
	r, m, first := &s.Run, &s.Resume, s.Messages[s.Run.IDs[0]]
	suspends = m.Suspended
	if r.Survived && r.Phase == Running {
		s.excused()
	}
	crashed := s.confirmed() && r.Phase == Running && s.interrupted("crash", false)
	died := 0
	if s.confirmed() && r.Phase == Starting || crashed && !s.progressed() {
		died = first.Deaths + 1
	}
	switch {
	case crashed && m.Suspended:
		n := m.Interruptions
		if n < s.Config.StuckLimit {
			n = m.runs
		}
		ends = fmt.Sprintf("given up: its worker died in %d turns in a row", n)
	case died >= s.Config.StuckLimit:
		ends = fmt.Sprintf("given up: its worker died %d times", died)
	case crashed && s.Config.CrashSuspends:
		// The interruptions still count in the new transcript, because the message may be killing the workers.
		suspends, m.Suspended, m.atLarge = true, true, inARow{m.Interruptions, m.runs}
	}
	if ends != "" && len(r.IDs) > 1 && (s.Journal == nil || !s.Journal.Steps) && r.Agent == "" && r.Rotated == "" {
		s.Journal = nil
		s.returns(r.IDs)
		for _, id := range r.IDs {
			s.Messages[id].Deaths = s.Config.StuckLimit - 1
		}
		if crashed {
			m.Interruptions, m.runs, m.Suspended = s.Config.StuckLimit-1, 0, false
		}
		s.closeQuestion()
		r.Phase = Idle
		return "", false, true
	}
	switch {
	case crashed && s.progressed():
		m.progressed = append(m.progressed, r.Fence)
	case crashed:
		m.crashes = append(m.crashes, r.Fence)
	}
	if r.Phase == Starting && died > 0 {
		for _, m := range s.all(r.IDs) {
			m.Deaths = died
			m.diedIn = append(m.diedIn, r.Fence)
		}
	}
	return ends, suspends, false
}

// recover ends the run of a dead owner. The turn goes on, or ends.
func (s *Session) recover() {
	r := &s.Run
	if !r.Announced {
		s.tell(started(r.Fence, r.TranscriptID, r.IDs))
	}
	for _, id := range r.IDs {
		s.Messages[id].Redelivered++
	}
	s.closeQuestion()
}

// endUnwritten ends a turn whose worker died when it was to write this end.
func (s *Session) endUnwritten() {
	r := &s.Run
	if !r.Announced {
		s.tell(started(r.Fence, r.TranscriptID, r.IDs))
	}
	status, why := "failed", r.Ending
	switch r.Ending {
	case "stop":
		status, why = "stopped", "stopped by user"
	case Interrupt:
		status, why = "interrupted", "interrupted by a newer message"
	case Rollback:
		status, why = "interrupted", "rolled back by a newer message"
	}
	ids := r.IDs
	for s.Journal == nil && r.Ending != "stop" && len(ids) > 1 && s.Messages[ids[len(ids)-1]].Steered {
		ids = ids[:len(ids)-1]
	}
	for _, id := range ids {
		s.archive(id, status, why)
	}
	s.putBack(r.IDs[len(ids):])
	if r.Rotated == "" {
		s.unsaid = unsaid{ids[len(ids)-1], r.Fence}
	} else {
		s.leaveMark()
	}
	if r.Ending == Rollback {
		s.State = ""
	}
	s.Journal, r.Phase = nil, Idle
	s.closeQuestion()
	s.ends(status, r.Fence, why, s.all(ids)...)
}
