package reference

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Stop requests the end of the running turn and archives every message that waits now. It returns
// the turn's phase and number, and the number of archived messages.
func (s *Session) Stop() string {
	waiting := slices.Clone(s.Line)
	for _, id := range waiting {
		s.archive(id, "stopped", "stopped by user")
		s.unsaid = unsaid{id, s.Run.Fence}
		s.ends("stopped", 0, "stopped by user", s.Messages[id])
	}
	s.forgetNotes()
	if s.Run.Phase != Idle {
		s.Run.Stop = true // of a dead owner, too: the next claim reads it
	}
	return fmt.Sprintf("%s T%d, %d archived", s.Run.Phase, s.Run.Fence, len(waiting))
}

// StopReplied wakes the session whose turn, without an owner, is to end: the sender does that after the reply.
func (s *Session) StopReplied() {
	if s.Run.Phase != Idle && s.Owner == 0 {
		s.announce()
	}
}

// Cancel ends one message. running: if it is part of a turn, Cancel requests the turn's end.
func (s *Session) Cancel(id string, running bool) string {
	m := s.Messages[id]
	switch {
	case m == nil:
		return "unknown"
	case m.State == Completed || m.State == Archived:
		return "ended: " + cmp.Or(m.Status, "failed") // an operator archives without a status
	case m.State == Active && !running:
		return "running"
	case m.State == Active && s.Run.Phase == Parked && len(s.Run.IDs) > 1 && s.Journal == nil:
		s.Run.IDs = slices.DeleteFunc(s.Run.IDs, func(other string) bool { return other == id }) // it only leaves the turn
	case m.State == Active:
		s.Run.Stop = true // of a dead owner, too: the next claim reads it
		if s.Owner == 0 {
			s.announce()
		}
		return "ending"
	}
	waited := m.Quiet != nil
	s.archive(id, "stopped", "stopped by user")
	s.ends("stopped", 0, "stopped by user", m)
	if waited && s.Owner == 0 && len(s.Line) > 0 {
		s.announce() // the rest may be claimable sooner
	}
	return "ended: stopped"
}

// Rotate is /new: the next turn begins another transcript. A running turn ends in the old one. With
// old it only replaces that transcript ID. agent is the next turn's; "": the same.
func (s *Session) Rotate(old, agent string) (transcriptID string) {
	if old != "" && old != s.TranscriptID {
		return s.TranscriptID
	}
	if old == "" { // else there is a record, and the session is known
		s.Index.Used = s.Now
	}
	s.TranscriptID = s.newTranscriptID()
	s.used()
	s.Title, s.TitleBy, s.unsaid = "", "", unsaid{}
	s.forgetNotes()
	if s.Run.Exists {
		s.Run.Rotated = s.TranscriptID
	}
	turn, changes := s.Run.Phase != Idle, agent != "" && agent != s.Agent
	if changes {
		if turn {
			s.Run.Agent = cmp.Or(s.Run.Agent, s.Agent)
		}
		s.Agent = agent
	}
	if asks := s.Run.Phase == Parked && s.Run.Question > 0 && s.Run.Decided != s.Run.Question; turn && s.Owner == 0 {
		s.Run.Interrupt = s.Run.Interrupt || asks || changes // it ends in the old one
	}
	if !turn { // else the turn's end does it
		s.Resume.unmark()
		s.Resume.Suspended, s.Resume.atLarge = false, inARow{}
	}
	return s.TranscriptID
}

// RotateReplied wakes the session whose turn, without an owner, ends in the transcript that Rotate replaced.
func (s *Session) RotateReplied() {
	if s.Run.Phase != Idle && s.Owner == 0 && s.Asked() != "" {
		s.Index.wake(s.Now, s.Now)
	}
}

// SetTitle sets the user's title. "" removes it.
func (s *Session) SetTitle(title string) {
	s.Index.Used = s.Now
	s.known()
	if title == "" {
		s.Title, s.TitleBy = "", ""
		return
	}
	s.Title, s.TitleBy = title, "user"
	s.used()
}

// Configure is /queue. Zero settings are the worker's.
func (s *Session) Configure(set Settings) {
	s.Index.Used = s.Now
	s.Settings = set
	if set != (Settings{}) {
		s.used()
	}
}

// SetReplyTo sets the destination of replies to the session's messages. "" removes it.
func (s *Session) SetReplyTo(destination string) {
	s.Index.Used = s.Now
	s.ReplyTo = destination
	if destination != "" {
		s.used()
	}
}

// Undo removes the last turn that ended: its entries from the transcript, and its dead letters. again: the user's text
// becomes one new message at the head of the queue.
func (s *Session) Undo(again bool) string {
	if s.Owner > 0 || s.Run.Phase != Idle {
		return "a turn is running"
	}
	entries := s.Transcripts[s.TranscriptID]
	last, n, of, said := Entry{}, 0, []string(nil), []string(nil)
	if len(entries) > 0 {
		last = entries[len(entries)-1]
	}
	turn := last.Turn
	for _, e := range entries {
		if e.Turn != turn {
			continue
		}
		if n++; e.Role == "user" {
			of, said = append(of, e.Message), append(said, e.Text)
		}
	}
	switch left := s.leftOut(); {
	case len(left) > 0 && s.Run.TranscriptID == s.TranscriptID && (s.unsaid.fence > turn || s.unsaid.fence == turn && !last.Ended):
		if !again {
			return "the last message failed or was stopped, and left nothing in the transcript"
		}
		turn, n, of, said = s.unsaid.fence, 0, nil, nil
		for _, m := range left {
			if m.Long {
				return "invalid"
			}
			of, said = append(of, m.ID), append(said, m.Text)
		}
	case len(entries) == 0:
		return "the transcript has no turn"
	}
	text := strings.Join(said, "\n\n")
	if again && text == "" {
		return "invalid"
	}
	if s.Owner == inDoubt || s.Run.Phase != Idle {
		return "a turn is running"
	}
	s.used()
	all := s.all(of)
	for i, id := range of {
		if route, known := s.remembered[id]; known && all[i] == nil {
			all[i] = &Message{ID: id, Route: &route}
		}
	}
	routed := slices.DeleteFunc(all, func(m *Message) bool { return m == nil || m.Route == nil })
	if n > 0 {
		s.undone = turn
		s.Transcripts[s.TranscriptID] = entries[:len(entries)-n]
		if s.Run.TranscriptID == s.TranscriptID {
			s.Run.Entries++ // it only increases, which shows that somebody wrote
		}
		s.record("message.withdrawn", always(label(turn)), routed)
	}
	for _, id := range of {
		if m := s.Messages[id]; m != nil && m.State == Archived {
			s.remove(id)
		}
	}
	if again {
		s.again++
		m := &Message{ID: name("again", s.again), Text: text, State: Pending, Seen: s.Now}
		s.Messages[m.ID] = m
		s.Line = slices.Insert(s.Line, 0, m.ID)
		if len(routed) > 0 {
			s.repeat(m, routed[0])
		}
		s.announce()
	}
	return fmt.Sprintf("%s, %d entries, %q", label(turn), n, text)
}

// leftOut are the dead letters of the last turn that failed or was stopped without entries, or the last message that
// was stopped while it waited.
func (s *Session) leftOut() (dead []*Message) {
	ids := []string{s.unsaid.id}
	if s.Run.Fence == s.unsaid.fence && slices.Contains(s.Run.IDs, s.unsaid.id) {
		ids = s.Run.IDs
	}
	for _, id := range ids {
		m := s.Messages[id]
		if m != nil && m.State == Archived && (m.Status == "failed" || m.Status == "stopped" || m.Status == "interrupted" && !strings.HasPrefix(m.Error, "rolled back")) {
			dead = append(dead, m)
		}
	}
	return dead
}

// Rerun is /resume: messages that failed or were stopped go to the end of the queue, in the order of
// their arrival.
func (s *Session) Rerun() (n int) {
	var again []*Message
	for _, m := range s.Messages {
		if m.State == Archived && (m.Status == "stopped" || m.Status == "failed") {
			again = append(again, m)
		}
	}
	slices.SortFunc(again, func(a, b *Message) int {
		return cmp.Or(cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.ID, b.ID))
	})
	again = again[:min(len(again), max(s.Config.LineCap-len(s.Line), 0))] // as many as there is room for
	for _, m := range again {
		s.enters(m)
		m.Status, m.Error, m.Arrived, m.Failures, m.Seen, m.Steered = "", "", 0, 0, s.Now, false
		s.repeat(m, m)
	}
	if len(again) > 0 {
		s.announce()
	}
	return len(again)
}

// DropDead deletes dead letters: the one with that ID, or all.
func (s *Session) DropDead(id string) (n int) {
	for _, m := range s.Messages {
		if m.State == Archived && (id == "" || id == m.ID) {
			s.remove(m.ID)
			n++
		}
	}
	return n
}

// Erase leaves nothing, unless the session has an owner. It refuses while an outcome is undelivered or
// still to come, unless those may be dropped.
func (s *Session) Erase(drop bool) string {
	if s.Owner != 0 {
		return "a turn is running"
	}
	if stored := len(s.Stored) + len(s.Undelivered); !drop && len(s.Owed)+stored > 0 {
		return fmt.Sprintf("%d owed, %d undelivered", len(s.Owed), stored)
	}
	s.clear()
	s.Transcripts = map[string][]Entry{}
	s.Index = Index{}
	return OK
}
