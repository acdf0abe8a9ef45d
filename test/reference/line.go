package reference

import (
	"cmp"
	"slices"
)

// enters puts a message at the end of the queue.
func (s *Session) enters(m *Message) {
	m.State = Pending
	s.Line = append(s.Line, m.ID)
}

// leaves removes a message from the queue, wherever it is.
func (s *Session) leaves(id string) {
	s.Line = slices.DeleteFunc(s.Line, func(other string) bool { return other == id })
}

// returns puts messages back to the head of the queue, in their order.
func (s *Session) returns(ids []string) {
	for _, id := range ids {
		m := s.Messages[id]
		m.State, m.Quiet = Pending, nil // none of them waits again for more
		s.forgetFollowUp(id)
	}
	s.Line = slices.Concat(ids, s.Line)
}

// joinDue moves the delayed messages that are due to the end of the queue, by their time and then in
// the order of their announcement.
func (s *Session) joinDue() {
	var due []*Message
	for _, m := range s.Messages {
		if m.State == Scheduled && m.Due <= s.Now {
			due = append(due, m)
		}
	}
	slices.SortFunc(due, func(a, b *Message) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.ID, b.ID))
	})
	for _, m := range due {
		s.enters(m)
	}
}

// dueNow reports whether a delayed message is due.
func (s *Session) dueNow() bool {
	at := s.earliest()
	return at > 0 && at <= s.Now
}

// earliest is when the first delayed message is due. 0: there is none.
func (s *Session) earliest() (at int64) {
	for _, m := range s.Messages {
		if m.State == Scheduled && (at == 0 || m.Due < at) {
			at = m.Due
		}
	}
	return at
}

// nextAt is when to check whether a turn can be taken. 0: never. It may be too early for collected
// messages, as the claim finds out.
func (s *Session) nextAt() int64 {
	if len(s.Line) == 0 {
		return s.earliest()
	}
	head := s.Messages[s.Line[0]]
	if head.Quiet != nil {
		return head.Quiet.Till
	}
	return s.Now
}

// next returns the messages of one turn: the head of the queue, or the collected messages at the head, at
// most as many as the first one's cap and the turn's allow. They must wait until wait.
func (s *Session) next() (group []string, wait int64) {
	if len(s.Line) == 0 {
		return nil, s.earliest()
	}
	head := s.Messages[s.Line[0]]
	if head.Long {
		return nil, 0 // a claim archives it
	}
	group = []string{head.ID}
	if q := head.Quiet; q != nil {
		till, most := q.Till, min(q.Cap, s.Config.TurnMessages)
		for _, id := range s.Line[1:] {
			more := s.Messages[id].Quiet
			if more == nil || s.Messages[id].Long || len(group) == most {
				break
			}
			group, till = append(group, id), max(till, more.Till)
		}
		if len(group) < most && till > s.Now {
			wait = till
		}
	}
	if wait > 0 {
		return nil, wait
	}
	return group, 0
}

// TooLong is the reason why a message beyond the limits is archived.
const TooLong = "too long"

// archiveLong archives the messages at the head of the queue that are beyond the limits.
func (s *Session) archiveLong() {
	for len(s.Line) > 0 && s.Messages[s.Line[0]].Long {
		id := s.Line[0]
		s.archive(id, "failed", TooLong)
		s.unsaid = unsaid{id, s.Run.Fence}
		s.ends("failed", 0, TooLong, s.Messages[id])
	}
}

// take makes the group the running turn.
func (s *Session) take(group []string) {
	for _, id := range group {
		m := s.Messages[id]
		s.leaves(id)
		s.forgetFollowUp(id)
		m.State = Active
		if m.Route != nil { // again, if an operator reruns a dead letter: the old result is not this run's
			m.Status, m.Error = "", ""
			if _, owed := s.Owed[m.ID]; !owed {
				s.repeat(m, m)
			}
		}
		if m.Seen == 0 {
			m.Seen = s.Now
		}
	}
	s.starts(group)
}

// starts begins a run of the turn with these messages.
func (s *Session) starts(ids []string) {
	for _, id := range ids {
		s.forgetFollowUp(id)
	}
	s.turns++
	r := &s.Run
	*r = Run{Exists: true, Phase: Starting, Fence: s.turns, IDs: slices.Clone(ids), TranscriptID: r.TranscriptID, Entries: r.Entries, Said: r.Said}
	if s.Config.Immediate {
		r.Phase = Running
	}
}

// remove deletes a message, with its follow-up entry.
func (s *Session) remove(id string) {
	s.forgetFollowUp(id)
	delete(s.Messages, id)
}

// complete ends a message that has its effect in the transcript.
func (s *Session) complete(id, status, why string) {
	m := s.Messages[id]
	s.forgetFollowUp(id)
	if !s.Config.Keeps {
		delete(s.Messages, id)
		return
	}
	m.State, m.Status, m.Error, m.Ended = Completed, status, why, s.Now
}

// archive makes a message a dead letter.
func (s *Session) archive(id, status, why string) {
	m := s.Messages[id]
	s.forgetFollowUp(id)
	s.leaves(id)
	m.State, m.Status, m.Error, m.Ended = Archived, status, why, s.Now
	m.Arrived = cmp.Or(m.Seen, s.Now)
	m.Seen, m.Redelivered, m.Deaths, m.diedIn, m.Quiet = 0, 0, 0, nil, nil
	if m.Long { // its content is not stored
		m.Long, m.Text = false, ""
	}
}
