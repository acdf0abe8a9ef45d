package reference

// The operations of an operator in asynqmon. Its Inspector knows only listed queues, and does not
// touch active messages.

// Pause keeps every worker from taking a turn. It returns false if the session is paused already.
func (s *Session) Pause() bool {
	was := s.Paused
	s.Paused = true
	return !was
}

// Unpause wakes nothing: the sweep finds the session.
func (s *Session) Unpause() bool {
	was := s.Paused
	s.Paused = false
	return was
}

// OperatorArchives archives a message. It returns false if that is refused.
func (s *Session) OperatorArchives(id string) bool {
	m := s.touchable(id)
	if m == nil || m.State == Archived {
		return false
	}
	s.leaves(id)
	m.State, m.Ended = Archived, s.Wall
	return true // its entry has no meaning until it runs again
}

// OperatorDeletes removes a message.
func (s *Session) OperatorDeletes(id string) bool {
	if s.touchable(id) == nil {
		return false
	}
	s.leaves(id)
	s.remove(id)
	return true
}

// OperatorRuns puts a message at the end of the queue.
func (s *Session) OperatorRuns(id string) bool {
	m := s.touchable(id)
	if m == nil || m.State == Pending {
		return false
	}
	s.enters(m)
	return true
}

// OperatorDeletesQueue removes all messages that wait or are archived, and the queue's name.
func (s *Session) OperatorDeletesQueue() bool {
	if !s.Index.Listed {
		return false
	}
	for _, m := range s.Messages {
		if m.State == Active {
			return false
		}
	}
	for id, m := range s.Messages {
		if m.State != Completed {
			s.leaves(id)
			s.remove(id)
		}
	}
	s.Index.Listed = false
	return true
}

func (s *Session) touchable(id string) *Message {
	m := s.Messages[id]
	if !s.Index.Listed || m == nil || m.State == Active {
		return nil
	}
	return m
}
