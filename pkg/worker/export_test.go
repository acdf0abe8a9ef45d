package worker

// Interrupted counts the sessions whose turn a drain has told to end.
func (w *Worker) Interrupted() (n int) {
	for _, s := range w.snapshot() {
		s.mu.Lock()
		if s.drained != nil {
			n++
		}
		s.mu.Unlock()
	}
	return n
}
