package reference

import (
	"cmp"
	"slices"
)

// Destination is a destination that a deliverer knows.
type Destination struct {
	Name   string
	MaxAge int64 // a record that is older is given up, ms
	Paused bool
}

// Attempt is a delivery that its taker may try.
type Attempt struct {
	Delivery
	Number int
	Unsure bool // the response to an earlier attempt is unknown

	token int64
}

// Taken is the result of Take.
type Taken struct {
	At       int64 // when to look again; 0: nothing is stored
	Unknown  int   // lines of destinations that it does not know
	Attempts []Attempt
}

const (
	takeMost = 32        // records
	later    = 60 * 1000 // ms

	unknownAge = 72 * 3600 * 1000 // ms: of a record for a destination that the caller does not know
)

// Take leases each line if its first record may be delivered now. looked are the messages with a
// promised delivery, in the order of the scan: if others ended one, Take stores its delivery.
func (s *Session) Take(known []Destination, lease int64, looked []string) (t Taken) {
	for _, id := range looked {
		route, owed := s.Owed[id]
		if m := s.Messages[id]; owed && (m == nil || m.Route == nil || m.State == Completed || m.State == Archived) {
			s.removed(id, route)
		}
	}
	s.leases++
	w := &s.walk
	w.from, w.was = w.behind, w.soonest
	t.At = w.was
	look := func(at int64) {
		if t.At == 0 || at < t.At {
			t.At = at
		}
	}
	for _, to := range s.lines() {
		if to <= w.from {
			continue
		}
		i := slices.IndexFunc(known, func(d Destination) bool { return d.Name == to })
		if i >= 0 {
			s.giveUpOld(to, known[i].MaxAge, "it was too old")
		} else {
			s.giveUpOld(to, unknownAge, "it was too old, and nobody knows its destination")
		}
		a := s.Attempts[to]
		switch {
		case s.first(to) < 0:
		case i < 0:
			t.Unknown++
			look(s.Now + later)
		case a.Leased && a.Till > s.Now:
			look(a.Till)
		case known[i].Paused:
			look(s.Now + later)
		case a.At > s.Now:
			look(a.At)
		case len(t.Attempts) >= takeMost:
			w.soonest = t.At
			t.At = s.Now
			return t
		default:
			a.Unsure = a.Unsure || a.Leased // that lease ended without an ack
			t.Attempts = append(t.Attempts, s.lease(to, a, takeMost-len(t.Attempts))...)
			a.At, a.Token, a.Leased, a.Till = 0, s.leases, true, s.Now+lease
			s.Attempts[to] = a
			look(a.Till)
		}
		w.behind = to
	}
	w.behind, w.soonest = "", 0
	return t
}

// removed stores a delivery about a message that an operator deleted or archived.
func (s *Session) removed(id string, route Route) {
	gone := []*Message{{ID: id, Route: &route}}
	s.record("message.stopped", always(ended("stopped", 0, []string{id}, "removed by operator")), gone)
	s.kept(gone)
}

// lines are the destinations that have records.
func (s *Session) lines() (names []string) {
	for _, r := range s.Stored {
		names = append(names, r.To)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *Session) lease(to string, a Attempts, most int) (list []Attempt) {
	for _, r := range s.Stored {
		if r.To != to || len(list) == most {
			continue
		}
		d := Attempt{Delivery: r, Number: 1, token: s.leases}
		if len(list) == 0 {
			d.Number, d.Unsure = a.Count+1, a.Unsure
		}
		d.Unsure = d.Unsure || r.Maybe
		list = append(list, d)
	}
	return list
}

// giveUpOld gives up the records at the head of a line that are too old, unless somebody has leased it.
func (s *Session) giveUpOld(to string, age int64, why string) {
	for i := s.first(to); i >= 0; i = s.first(to) {
		r, why := s.Stored[i], why
		end := r.Sequence + age
		if r.By > 0 {
			end, why = r.By, "it was too late: its deliver_by was over"
		}
		if a := s.Attempts[to]; end >= s.Now || a.Leased && a.Till > s.Now {
			break
		}
		s.giveUp(to, r.Sequence, why, s.Attempts[to].Leased || s.Attempts[to].Unsure)
	}
	if s.first(to) < 0 {
		delete(s.Attempts, to)
	}
}

func (s *Session) giveUp(to string, sequence int64, why string, unsure bool) {
	r := s.unstore(to, sequence)
	if r == nil {
		return
	}
	r.GaveUp, r.Why, r.Maybe = s.Now, why, r.Maybe || unsure
	s.Undelivered = append(s.Undelivered, *r)
	slices.SortStableFunc(s.Undelivered, func(a, b Delivery) int {
		return cmp.Or(cmp.Compare(a.GaveUp, b.GaveUp), cmp.Compare(a.To, b.To), cmp.Compare(a.Sequence, b.Sequence))
	})
	delete(s.Attempts, to)
}

// Ack is the result of an attempt.
type Ack struct {
	Verdict string // delivered, again, dead, or release: it was not tried
	Wait    int64  // again: until the next attempt, ms
	Unsure  bool   // again, dead: the response is unknown
	Why     string
}

// Ack stores the result of an attempt, if its taker still has the lease. left: the line has more.
func (s *Session) Ack(d Attempt, a Ack) (ok, left bool) {
	now, taken := s.Attempts[d.To]
	done := a.Verdict == "delivered" || a.Verdict == "dead"
	if now.Token != d.token || !now.Leased {
		gone := !slices.ContainsFunc(s.Stored, func(r Delivery) bool { return r.To == d.To && r.Sequence == d.Sequence })
		ok = taken && now.Token == d.token || !taken && done && gone // as if repeated
		return ok, ok && s.first(d.To) >= 0
	}
	switch a.Verdict {
	case "delivered":
		s.unstore(d.To, d.Sequence)
	case "dead":
		s.giveUp(d.To, d.Sequence, a.Why, now.Unsure || a.Unsure)
	}
	switch {
	case done: // it continues with the next one
		now.Count, now.At, now.Unsure = 0, 0, false
	case a.Verdict == "again" && s.heads(d): // not of a question that is over
		now.Count, now.At, now.Unsure, now.Leased, now.Till = now.Count+1, s.Now+a.Wait, now.Unsure || a.Unsure, false, 0
	default:
		now.At, now.Leased, now.Till = 0, false, 0
	}
	if left = s.first(d.To) >= 0; left {
		s.Attempts[d.To] = now
	} else {
		delete(s.Attempts, d.To)
	}
	return true, left
}

// heads reports whether the record of an attempt is the first of its line.
func (s *Session) heads(d Attempt) bool {
	i := s.first(d.To)
	return i >= 0 && s.Stored[i].Sequence == d.Sequence
}

// Redrive puts the records that were given up back at the end of their lines, or deletes them. An empty
// destination means all. A question that is over is deleted.
func (s *Session) Redrive(to string, drop bool) (n int) {
	all := s.Undelivered
	s.Undelivered = nil
	for _, r := range all {
		switch {
		case to != "" && r.To != to:
			s.Undelivered = append(s.Undelivered, r)
			continue
		case !drop && r.Type == "question.asked" && !slices.ContainsFunc(s.asked, func(q Delivery) bool { return q.To == r.To && q.Sequence == r.First }):
			continue // it is over
		case !drop:
			r.GaveUp, r.Why, r.By = 0, "", 0
			s.store(r)
		}
		n++
	}
	return n
}

// DueOutbox takes the session from the index of the outbox, if it is due. Nobody else gets it for a while.
func (s *Session) DueOutbox(hidden int64) bool {
	x := &s.Index
	due := x.Outbox > 0 && x.Outbox <= s.Now
	if due {
		x.Outbox = s.Now + hidden
	}
	return due
}

// outboxRecheck is how often a sweep makes deliverers look at records although they are scheduled for
// later.
const outboxRecheck = 60 * second

// indexOutbox makes deliverers look at a session with stored or promised deliveries, at once if they do
// not know it. Sweeps as far apart as outboxRecheck also cover sessions with promises only.
func (s *Session) indexOutbox() {
	x := &s.Index
	if s.owes() && x.Outbox == 0 {
		x.Outbox = s.Now
	}
	if len(s.Stored) > 0 {
		x.Outbox = min(x.Outbox, s.Now+outboxRecheck)
	}
}

// Rescore sets when deliverers look at the session, if its time in the index is still score.
func (s *Session) Rescore(score, at int64) {
	if s.Index.Outbox == score {
		s.Index.Outbox = at
	}
}
