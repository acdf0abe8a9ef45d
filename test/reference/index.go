package reference

import "cmp"

// Index is the session's state in the indexes.
type Index struct {
	Ready  bool  // it can be claimed now
	Due    int64 // when it can be claimed, ms; 0: it is not in that index
	Owned  bool  // its owner or claimer may die
	Used   int64 // when a sender last used it; 0: forgotten, or never known
	Listed bool  // asynqmon shows its queue
	Noted  int64 // when maintenance checks again that it need not be listed, ms
	Outbox int64 // when deliverers look at it, ms; 0: they do not
}

const (
	second = 1000
	// overdue is how late a delayed session may be found before that counts as a recovery, which
	// goes at its own pace.
	overdue = 5 * second
	// recheck is when a session that left asynqmon's list is checked again.
	recheck = 10 * second
)

// How long a record, a result and a dead letter are stored, ms.
const (
	SessionTTL = 24 * 3600 * second
	ResultTTL  = 12 * 3600 * second
	DeadTTL    = 30 * 24 * 3600 * second
)

// later puts the session into the index of due ones.
func (x *Index) later(at int64) {
	if x.Due == 0 || at < x.Due {
		x.Due = at
	}
}

// wake puts the session into the ready index, or, if it can only be claimed later, into the index
// of due ones.
func (x *Index) wake(at, now int64) {
	if at > now {
		x.later(at)
		return
	}
	x.Ready, x.Owned = true, true
}

// enter makes the session known, and its queue known to asynqmon, before a message is in it,
// because its sender may die after that.
func (s *Session) enter() { s.Index.Listed, s.Index.Used = true, s.Now }

// announce wakes the session for messages without a Send.
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

// look returns whether the session can be claimed: held, paused, dead (an owner died), ready, wait
// or empty. at is the end of its wait.
func (s *Session) look() (what string, at int64) {
	switch {
	case s.Owner == 0 && !s.has(Pending, Active, Scheduled):
		return "empty", 0
	case s.Owner != 0:
		return "held", 0
	case s.endsAs() != "" && s.Run.Phase == Parked: // also if it is paused
		return "ready", 0
	case s.endsAs() != "":
		return "dead", 0
	case s.Paused:
		return "paused", 0
	case s.Run.Phase == Parked:
		return s.waits(s.Run.Until)
	case s.has(Active):
		return "dead", 0
	}
	return s.waits(s.nextAt())
}

// endsAs is how the turn that has not ended is to end; "": it is not.
func (s *Session) endsAs() string {
	if s.Run.Phase == Idle {
		return ""
	}
	return cmp.Or(s.Run.Ending, s.Asked())
}

func (s *Session) waits(at int64) (what string, until int64) {
	if at > s.Now {
		return "wait", at
	}
	return "ready", 0
}

// Reap checks the owner of a session when that is due, and recovers the session of a dead one.
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

// DueTimer wakes the session if it is due.
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

// Sweep wakes a session with a lost wake-up, if a list has it, and returns how many it woke. The
// model assumes that no check of the session's owner or claimer is due.
func (s *Session) Sweep() (found int) {
	x := &s.Index
	if x.Used == 0 && !x.Listed {
		return 0
	}
	s.indexOutbox()
	if !s.has(Pending, Active, Scheduled) {
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

// Find enters a session that no index knows: one with messages, so that the sweep and the purge
// find them, even in a queue with an unknown name; one with only a record, so that it is forgotten
// as soon as that is old enough. asynqmon lists it if it has more than results. Find returns how
// many sessions it entered.
func (s *Session) Find() (entered int) {
	x, messages, unfinished := &s.Index, len(s.Messages) > 0, s.has(Pending, Active, Scheduled, Archived)
	known := x.Used > 0
	if known && (x.Listed || !unfinished) || !messages && !s.Known && !s.Run.Exists {
		return 0
	}
	x.Listed = x.Listed || unfinished
	if !known {
		x.Used = 1 // long ago
		if messages {
			x.Used = s.Now
		}
	}
	return 1
}

// Maintain deletes old data: results and dead letters, also in a queue after an operator deleted its
// name; the queue's name in asynqmon's list, if it has only results; the record. It returns how many of
// each.
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
	idle := !s.has(Pending, Active, Scheduled, Archived) && !s.Paused
	if x.Noted > 0 && x.Noted <= s.Now {
		x.Listed, x.Noted = x.Listed || !idle, 0
	}
	if x.Listed && idle {
		x.Listed, x.Noted = false, s.Now+recheck
		names++
	}
	if x.Used > 0 && s.Now-x.Used >= SessionTTL {
		if s.Owner == 0 && len(s.Messages) == 0 && !s.owes() && s.Now-s.Used >= SessionTTL {
			s.forgetRecord()
			x.Used = 0
			forgotten++
		} else {
			x.Used = s.Now
		}
	}
	return deleted, names, forgotten
}
