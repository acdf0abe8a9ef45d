package store

// SetLogMost sets how many bytes of events readers of all sessions may be behind. Call it before the first one.
func (s *Store) SetLogMost(n int) { s.logMost = n }
