package reference

// Index is what the indexes know of a session: who looks at them finds it.
type Index struct {
	Ready  bool  // it can be claimed now
	Due    int64 // it can be then, ms; 0: it is not in there
	Owned  bool  // its owner or claimer may die
	Used   int64 // when a sender last had to do with it; 0: it is forgotten, or was never known
	Listed bool  // asynqmon shows its queue
}

const (
	second = 1000
	// overdue is how late a delayed session may be found before that is a recovery,
	// which goes at its own pace.
	overdue = 5 * second
)

// How long a record, a result and a dead letter are kept, ms.
const (
	SessionTTL = 24 * 3600 * second
	ResultTTL  = 12 * 3600 * second
	DeadTTL    = 30 * 24 * 3600 * second
)

// later has the session looked at when it is due.
func (x *Index) later(at int64) {
	if x.Due == 0 || at < x.Due {
		x.Due = at
	}
}

// wake tells the workers of a session that can be claimed then.
func (x *Index) wake(at, now int64) {
	if at > now {
		x.later(at)
		return
	}
	x.Ready, x.Owned = true, true
}

// enter makes the session known, and its queue to asynqmon: before a message is in it,
// for its sender may die behind that.
func (s *Session) enter() { s.Index.Listed, s.Index.Used = true, s.Now }

// announce is the wake-up for messages that no Submit has brought.
func (s *Session) announce() {
	s.enter()
	s.Index.wake(0, s.Now)
}

// Pop takes the session off the ready index, as a worker does before it claims.
func (s *Session) Pop() { s.Index.Ready = false }

// has reports whether a message is in one of the states.
func (s *Session) has(states ...string) bool {
	for _, m := range s.Messages {
		for _, state := range states {
			if m.State == state {
				return true
			}
		}
	}
	return false
}

// look judges whether the session can be claimed: held, paused, dead (an owner died),
// ready, wait or empty; at is until when it waits.
func (s *Session) look() (what string, at int64) {
	switch {
	case s.Owner == 0 && !s.has(Pending, Active, Scheduled):
		return "empty", 0
	case s.Owner != 0:
		return "held", 0
	case s.Paused:
		return "paused", 0
	case s.has(Active):
		return "dead", 0
	}
	if at = s.nextAt(); at > s.Now {
		return "wait", at
	}
	return "ready", 0
}

// Reap looks after a session of which it is time to look whether its owner lives.
func (s *Session) Reap() {
	x := &s.Index
	if !x.Owned || x.Ready {
		return
	}
	switch what, at := s.look(); what {
	case "held":
	case "dead", "ready":
		x.Ready = true
	case "wait":
		x.later(at)
		x.Owned = false
	default:
		x.Owned = false
	}
}

// DueTimer moves the session on if its time has come.
func (s *Session) DueTimer() {
	x := &s.Index
	if x.Due == 0 || x.Due > s.Now {
		return
	}
	if s.Now-x.Due <= overdue {
		x.Ready = true
	}
	x.Owned, x.Due = true, 0
}

// Sweep finds a session that nobody has announced, unless it is in nobody's list. It
// answers how many it found. Its owner, or its claimer, is not to be looked after now.
func (s *Session) Sweep() (found int) {
	x := &s.Index
	if x.Used == 0 && !x.Listed || !s.has(Pending, Active, Scheduled) {
		return 0
	}
	s.trim()
	if x.Ready {
		return 0
	}
	x.Listed = true
	if x.Used == 0 {
		x.Used = s.Now
	}
	switch what, at := s.look(); what {
	case "held", "dead":
		x.Owned = true
	case "ready":
		x.wake(s.Now, s.Now)
		return 1
	case "wait":
		x.later(at)
	}
	return 0
}

// Find enters a session that no index knows: with messages, so that the sweep and the
// purge find them, even of a queue whose name nobody told; with no more than a record, to
// be forgotten as soon as that is old enough. It answers how many it entered.
func (s *Session) Find() (entered int) {
	x, messages := &s.Index, len(s.Messages) > 0
	known := x.Used > 0
	if known && (x.Listed || !messages) || !messages && !s.Known && !s.Run.Exists {
		return 0
	}
	x.Listed = x.Listed || messages
	if !known {
		x.Used = 1 // long ago
		if messages {
			x.Used = s.Now
		}
	}
	return 1
}

// Maintain deletes what is too old: results and dead letters, also of a queue whose
// name an operator has deleted; the queue's name from asynqmon's list; the record. It
// answers how many of each.
func (s *Session) Maintain() (deleted, names, forgotten int) {
	x := &s.Index
	if x.Listed || x.Used > 0 {
		for id, m := range s.Messages {
			if m.State == Completed && s.Now-m.Ended >= ResultTTL || m.State == Archived && s.Now-m.Ended >= DeadTTL {
				s.remove(id)
				deleted++
			}
		}
	}
	if x.Listed && len(s.Messages) == 0 && !s.Paused {
		x.Listed = false
		names++
	}
	if x.Used > 0 && s.Now-x.Used >= SessionTTL {
		if s.Owner == 0 && len(s.Messages) == 0 && s.Now-s.Used >= SessionTTL {
			s.forgetRecord()
			x.Used = 0
			forgotten++
		} else {
			x.Used = s.Now
		}
	}
	return deleted, names, forgotten
}
