package reference

import (
	"fmt"
	"slices"
)

// End is how an owner ends its turn.
type End struct {
	Status   string // done, failed, interrupted, stopped or expired
	Error    string
	Rollback bool // for interrupted: nothing of it is kept
	Entries  []Entry
	Untaken  bool // the agent accepted none of the steered messages
	Told     bool // the agent received the notes of all dropped messages
	Release  bool // the session is released even if more messages wait
}

// Finish ends a turn: its messages, its entries and its mark in one step. Then it takes the next
// turn under the same sentinel, or releases the sentinel.
func (s *Session) Finish(h *Claim, e End) string {
	start := h.start()
	if !s.Owns(h) {
		return Lost
	}
	r, last := &s.Run, h.Turn
	ending, back := h.parts, []string(nil)
	if e.Untaken {
		ending, back = h.parts[:len(last.Messages)], h.parts[len(last.Messages):]
	}
	var stopped []string
	if r.Stop {
		stopped, back = back, nil
	}
	messages := s.all(ending)
	for _, id := range ending {
		if e.Status == "done" || e.Status == "interrupted" && !e.Rollback {
			s.complete(id, e.Status, e.Error)
		} else {
			s.archive(id, e.Status, e.Error)
			if len(e.Entries) == 0 && r.Rotated == "" {
				s.unsaid = unsaid{id, last.Number}
			}
		}
	}
	said, sid := len(s.Transcripts[r.TranscriptID]), r.TranscriptID
	if n := len(e.Entries); n > 0 && (e.Status == "failed" || e.Status == "stopped") {
		e.Entries = slices.Clone(e.Entries)
		e.Entries[n-1].Ended = true
	}
	s.append(sid, e.Entries)
	s.Journal = nil
	switch {
	case e.Status == "done":
		s.Resume = Resume{}
	case r.Rotated != "":
		s.leaveMark()
	}
	if e.Told {
		s.toldNotes(last.noted)
	}
	if start != "" {
		s.tell(start)
	}
	s.closeQuestion()
	s.ends(e.Status, last.Number, e.Error, messages...)
	for _, id := range stopped {
		s.archive(id, "stopped", "stopped by user")
		s.unsaid = unsaid{id, last.Number}
		s.ends("stopped", 0, "stopped by user", s.Messages[id])
	}
	s.putBack(back)
	s.joinDue()
	if r.Rotated != "" {
		r.TranscriptID, r.Entries = r.Rotated, 0
	}

	group, _ := s.next()
	switch {
	case e.Release || s.Paused || r.Agent != "": // the next turn has another agent
		group = nil
	case len(back) > 0 && len(group) > 0 && s.Messages[group[0]].Quiet != nil:
		group = nil // a claim collects them, since all are back now
	}
	// Between the turns of one owner, the TTL of the first turn's entries continues.
	if len(e.Entries) > 0 && (said == 0 || len(group) == 0) {
		s.Renewed[sid] = true
	}
	if len(group) == 0 {
		s.release()
		if len(s.Line) == 0 {
			s.FollowUps = nil
		}
		s.used()
		return "released"
	}
	s.take(group)
	h.Turn, h.parts, h.announced = s.told(), slices.Clone(group), false
	if e.Status != "done" { // its notes are still due
		if last.TranscriptID == h.Turn.TranscriptID {
			h.Turn.Resume = last.Resume
		}
	}
	return "next"
}

// append writes entries to a transcript, which keeps the newest.
func (s *Session) append(transcriptID string, entries []Entry) {
	all := append(s.Transcripts[transcriptID], entries...)
	if len(entries) > 0 {
		all = all[max(len(all)-s.Config.TranscriptCap, 0):]
	}
	large := 0
	for i, e := range slices.Backward(all) {
		if e.Large {
			large++
		}
		if large > s.Config.LargeEntries {
			all = all[i+1:]
			break
		}
	}
	s.Transcripts[transcriptID] = all
	s.Run.Entries += len(entries)
}

// putBack returns steered messages that the agent has not accepted to their places in the queue:
// each before the first message that was announced later and does not go first.
func (s *Session) putBack(ids []string) {
	for _, id := range slices.Backward(ids) {
		m := s.Messages[id]
		at := 0
		for i, other := range s.Line {
			if slices.Contains(ids, other) {
				continue // it is back already, and arrived later
			}
			if s.Messages[other].Seq > m.Seq && !s.goesFirst(other) {
				break
			}
			at = i + 1
		}
		m.State = Pending
		s.forgetFollowUp(id)
		s.Line = slices.Insert(s.Line, at, id)
	}
}

// release releases the sentinel, and wakes the session if messages wait.
func (s *Session) release() {
	s.Owner, s.Run.Phase = 0, Idle
	if at := s.nextAt(); at > 0 {
		s.Index.wake(at, s.Now)
	}
}

// Parking is why an owner leaves a turn that has not ended, and until when.
type Parking struct {
	Wait        int64
	Failed      string // the error of an attempt
	Interrupted string // the reason of an interruption
	Question    int    // for whose decision it waits
	Throttled   bool   // a provider asks for the wait
}

// Park leaves the turn, which stays as it is: the next claim goes on with it.
func (s *Session) Park(h *Claim, p Parking) string {
	start := h.start()
	if !s.Owns(h) {
		return Lost
	}
	if s.Asked() != "" { // it must end as requested instead
		h.announced = start == ""
		return s.Asked()
	}
	r := &s.Run
	asks := p.Question > 0 && p.Question == r.Question
	if asks && r.Rotated != "" { // as /new of a turn that waits
		h.announced = start == ""
		return Interrupt
	}
	if p.Question > 0 && (!asks || r.Decided == p.Question) {
		p.Wait = 0
	}
	event := "turn_requeued " + p.Interrupted
	switch {
	case p.Failed != "":
		event = fmt.Sprintf("turn_retry %d %s", h.Turn.Attempt, p.Failed)
		for _, m := range s.all(h.parts) {
			m.Failures = h.Turn.Attempt
		}
	case p.Question > 0:
		event = "turn_requeued parked"
	case p.Throttled:
		event = "turn_requeued throttled"
		r.Throttled++
	}
	for _, id := range h.parts {
		if p.Failed == "" && !asks && !p.Throttled {
			s.Messages[id].Redelivered++
		}
	}
	if !asks {
		s.closeQuestion()
		r.Question = 0
	}
	if start != "" {
		s.tell(start)
	}
	s.tell(event)
	if p.Interrupted != "" && r.Phase == Running {
		s.interrupted(p.Interrupted, h.Worker == Veteran)
	}
	s.Owner, r.Phase, r.Until = 0, Parked, s.Now+p.Wait
	s.Index.wake(r.Until, s.Now)
	return "released"
}

// Mark is called by a drain before it interrupts: it marks a running turn, and keeps a starting one
// from starting. A life's marks are by the worker that has just started.
func (s *Session) Mark(h *Claim, reason string) string {
	switch {
	case !s.Owns(h):
		return Lost
	case s.endsAs() != "":
	case s.Run.Phase == Starting:
		s.Run.NoStart = true
		return "starting"
	default:
		s.interrupted(reason, false)
	}
	return OK
}
