package reference

import (
	"cmp"
	"fmt"
	"slices"
)

// The busy modes.
const (
	Queue     = "queue"
	Collect   = "collect"
	Steer     = "steer"
	Interrupt = "interrupt"
	Rollback  = "rollback"
	Reject    = "reject"
)

// The drop policies.
const (
	DropNew   = "new"
	DropOld   = "old"
	Summarize = "summarize"
)

// Receipt is the result of Send.
type Receipt struct {
	Status, State, Reason string
	Position              int
	At                    int64

	ends bool // it ends a parked turn
}

// enqueue stores a message, unless there is one with its ID.
func (s *Session) enqueue(id, text string, due int64) (fresh bool) {
	if s.Messages[id] != nil {
		return false
	}
	m := &Message{ID: id, Text: text}
	s.Messages[id] = m
	if due > 0 {
		m.State, m.Due = Scheduled, due
	} else {
		s.enters(m)
	}
	return true
}

// Plain is a sender that knows only asynq: it does not use accept, knows no limits, and its
// asynq.Client adds the queue's name once. It returns false if there is a message with that ID.
func (s *Session) Plain(id string, due int64, long bool) bool {
	if !s.published {
		s.published, s.Index.Listed = true, true
	}
	fresh := s.enqueue(id, id, due)
	if fresh {
		s.Messages[id].Long = long
	}
	return fresh
}

// Send makes the session known, even if the message is refused, then stores the message and
// notifies. With due the message joins the queue only at that time. lost: the reply does not
// arrive, so the sender does nothing more.
//
// The ID is remembered from then on: with another mode or route it is a conflict, and it never runs
// again. after is the message that it must follow directly, or "". agent is the one that the
// session gets, if it has none; "": the one by its key.
func (s *Session) Send(id, mode string, due int64, to Route, fallback, after, agent string, lost bool) Receipt {
	s.enter()
	within := to.Within
	to.Within = 0
	wanted := fmt.Sprint(mode, to, after, agent)
	fresh, r := false, Receipt{Status: "refused"}
	switch used, ok := s.given[id]; {
	case ok && used != wanted:
		r.Reason = "conflict"
	case ok && s.Messages[id] == nil:
		r.Reason = "expired"
	default:
		route := s.route(to, fallback)
		full, forks := route != nil && len(s.Owed)+len(s.Stored) >= s.Config.OutboxCap, after != "" && !s.isLast(after)
		fresh = s.enqueue(id, id, due)
		if fresh && agent != "" && s.Agent != "" && s.Agent != agent {
			r = s.refuse(s.Messages[id], "agent")
			break
		}
		if fresh && full {
			r = s.refuse(s.Messages[id], "outbox")
			break
		}
		if fresh && forks {
			r = s.refuse(s.Messages[id], "not_last")
			break
		}
		r = s.accept(id, mode, fresh)
		if fresh && r.Status != "refused" {
			s.given[id] = wanted
			s.Agent = cmp.Or(s.Agent, agent)
			if was, owed := s.Owed[id]; owed && route != nil {
				s.removed(id, was) // an operator has deleted an earlier message with this ID
			}
			s.Messages[id].Route = route
			s.promise(s.Messages[id])
			if route != nil && within > 0 {
				s.DeliverBy[id] = s.Now + within
			}
		}
	}
	if lost {
		return Receipt{}
	}
	switch r.Status {
	case "accepted":
		s.Index.wake(r.At, s.Now)
		r.At = 0
	case "scheduled":
		s.Index.wake(r.At, s.Now)
	}
	if r.ends {
		s.Index.wake(s.Now, s.Now)
	}
	if !fresh && r.Status != "refused" {
		r.State = r.Status
		if r.Status == "queued" || r.Status == "accepted" {
			r.State = "pending"
		}
		r.Status = "duplicate"
	}
	return r
}

// isLast reports whether a message is the last of the session: the newest that waits, or part of the last
// turn.
func (s *Session) isLast(id string) bool {
	if len(s.Line) > 0 {
		return s.Line[len(s.Line)-1] == id
	}
	return s.Run.TranscriptID == s.TranscriptID && s.Run.Fence != s.undone && slices.Contains(s.Run.IDs, id)
}

// FreeIDs ends the time for which message IDs are remembered.
func (s *Session) FreeIDs() { clear(s.given) }

// accept announces a message that is new, or found again by its ID. One that no longer waits stays
// unchanged.
func (s *Session) accept(id, mode string, fresh bool) Receipt {
	m := s.Messages[id]
	switch m.State {
	case Active:
		return Receipt{Status: "running"}
	case Completed, Archived:
		return Receipt{Status: m.State}
	case Scheduled:
		if delayed := s.count(Scheduled); fresh && (delayed > s.delayedCap() || delayed+len(s.Line) > s.Config.LineCap) {
			return s.refuse(m, "line")
		}
		s.announced(m, max(m.Due, s.Now))
		return Receipt{Status: "scheduled", At: m.Due}
	}

	// The message's settings take precedence, then the session's, then those of its last worker.
	set, worker := s.Settings, s.Run.Said
	mode = cmp.Or(mode, set.Mode, worker.Mode, Queue)
	capacity := cmp.Or(set.Cap, worker.Cap, len(s.Line))
	policy := cmp.Or(set.Drop, worker.Drop, DropNew)
	debounce := cmp.Or(set.Debounce, worker.Debounce)

	ownerless := s.Owner <= 0 && s.Run.Phase != Idle && s.count(Active) > 0
	parked := ownerless && s.Run.Phase == Parked
	busy := s.Owner > 0 || ownerless
	told := s.followUp(id) != nil // repeated: it is not counted, moved or signalled again
	urgent := (mode == Interrupt || mode == Rollback) && (s.Run.Phase == Running || parked)
	full := len(s.Line) > capacity && !urgent // an urgent one takes the turn's place

	if busy && fresh && !told {
		if mode == Reject {
			return s.refuse(m, "busy")
		}
		if full && policy == DropNew {
			return s.refuse(m, "full")
		}
	}
	var drops []string // they make room
	if busy && fresh && !told && full {
		drops = s.oldest(id, capacity)
	}
	if fresh && len(drops) == 0 && len(s.Line)+min(s.count(Scheduled), s.delayedCap()) > s.Config.LineCap {
		return s.refuse(m, "line")
	}
	first := m.Seq == 0 && m.Seen == 0 // else it is repeated, and gets no new window
	s.announced(m, s.Now)
	collected := mode == Collect && !told && (busy || len(s.Line) > 1)
	if collected && (fresh || first) {
		m.Quiet = &Quiet{Till: s.Now + debounce, Cap: max(capacity, 1)}
	}
	if !busy {
		at := cmp.Or(s.nextAt(), s.Now)
		if collected && len(s.Line) >= capacity {
			at = s.Now // this many no longer wait
		}
		return Receipt{Status: "accepted", At: at}
	}
	s.drop(drops, capacity, policy)
	if !told {
		s.joins(m, mode, urgent, collected)
	}
	return Receipt{Status: "queued", Position: s.position(id), ends: ownerless && (!parked || urgent || s.Asked() != "")}
}

// delayedCap is how many delayed messages a session may have: half of its queue.
func (s *Session) delayedCap() int { return (s.Config.LineCap + 1) / 2 }

// count is how many messages are in a state.
func (s *Session) count(state string) (n int) {
	for _, m := range s.Messages {
		if m.State == state {
			n++
		}
	}
	return n
}

// trim archives the waiting messages beyond the cap and beyond the number that a turn may requeue: the
// newest of the queue, and the delayed ones that are due last.
func (s *Session) trim() {
	most := s.Config.LineCap + s.Config.TurnMessages
	why := fmt.Sprintf("dropped: more than %d messages were waiting", most)
	delayed := []string{}
	for id, m := range s.Messages {
		if m.State == Scheduled {
			delayed = append(delayed, id)
		}
	}
	slices.SortFunc(delayed, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Messages[a].Due, s.Messages[b].Due), cmp.Compare(a, b))
	})
	for _, waits := range [][]string{slices.Clone(s.Line), delayed} {
		for _, id := range slices.Backward(waits[min(len(waits), most):]) {
			s.archive(id, "dropped", why)
			s.ends("dropped", 0, why, s.Messages[id])
		}
	}
}

// announced records when a message was first announced, and its number.
func (s *Session) announced(m *Message, at int64) {
	s.known()
	if m.Seq == 0 {
		s.seq++
		m.Seq = s.seq
	}
	if m.Seen == 0 {
		m.Seen = at
	}
}

// refuse leaves nothing of the message.
func (s *Session) refuse(m *Message, reason string) Receipt {
	s.leaves(m.ID)
	delete(s.Messages, m.ID)
	return Receipt{Status: "refused", Reason: reason}
}

// oldest are the messages to drop so that no more than the cap wait: neither id, which just
// arrived, nor one that goes first.
func (s *Session) oldest(id string, capacity int) (oldest []string) {
	excess := len(s.Line) - capacity
	for _, old := range s.Line[:min(excess+1, len(s.Line))] {
		if old != id && !s.goesFirst(old) && len(oldest) < excess {
			oldest = append(oldest, old)
		}
	}
	return oldest
}

// drop archives messages beyond the cap.
func (s *Session) drop(oldest []string, capacity int, policy string) {
	why := fmt.Sprintf("dropped: more than %d messages were waiting", capacity)
	for _, old := range oldest {
		s.archive(old, "dropped", why)
		s.ends("dropped", 0, why, s.Messages[old])
		if policy == Summarize {
			s.note(old)
		}
	}
}

// notesTold is how many dropped messages a turn's note names, the newest ones. It has the number of
// the others.
const notesTold = 50

// note adds a dropped message to the next turn's note.
func (s *Session) note(id string) { s.Dropped, s.noted = append(s.Dropped, id), s.noted+1 }

// forgetNotes deletes the notes with their transcript.
func (s *Session) forgetNotes() { s.Dropped = nil }

// newestNotes returns the notes that a turn names, and the number of older ones.
func (s *Session) newestNotes() (ids []string, older int) {
	older = max(len(s.Dropped)-notesTold, 0)
	return slices.Clone(s.Dropped[older:]), older
}

// toldNotes deletes the notes that existed when their count was noted.
func (s *Session) toldNotes(noted int) {
	s.Dropped = s.Dropped[max(len(s.Dropped)-(s.noted-noted), 0):]
}

// goesFirst reports whether a waiting message goes before the others.
func (s *Session) goesFirst(id string) bool {
	f := s.followUp(id)
	return f != nil && (f.Mode == Interrupt || f.Mode == Rollback)
}

// joins makes a message a follow-up of the running turn. By its mode it also requests a steer, an
// interruption or a rollback.
func (s *Session) joins(m *Message, mode string, urgent, collected bool) {
	if urgent {
		s.leaves(m.ID)
		s.Line = slices.Insert(s.Line, 0, m.ID)
	}
	switch {
	case mode == Steer:
		s.Run.Steer = true
	case urgent && mode == Interrupt:
		s.Run.Interrupt = true
	case urgent:
		s.Run.Rollback = true
	}
	f := FollowUp{ID: m.ID, Mode: mode, State: "queued", Order: s.position(m.ID)}
	if collected {
		f.State = "collected"
	}
	s.FollowUps = append(s.FollowUps, f)
	s.tell(fmt.Sprintf("queued [%s] %s at %d", m.ID, mode, f.Order))
}

// position is a message's place in the queue, counting the running turn.
func (s *Session) position(id string) int { return slices.Index(s.Line, id) + 2 }
