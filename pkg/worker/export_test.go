package worker

import "time"

// JobsEvery has all maintenance jobs run at one interval.
func (o *Options) JobsEvery(d time.Duration) { o.jobsEvery = d }

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
