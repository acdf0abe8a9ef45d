package reference

import (
	"fmt"
	"slices"
	"strings"
)

// Outbox has the messages with a promised delivery, and the records stored for destinations.
type Outbox struct {
	Owed        map[string]Route    // of each unfinished message with a route
	DeliverBy   map[string]int64    // of these: when delivery of the end expires; absent: by its destination
	Stored      []Delivery          // to be delivered, in the order of their sequences
	Undelivered []Delivery          // given up, the oldest first
	Attempts    map[string]Attempts // to deliver the first record of a destination

	sequence, leases int64
	remembered       map[string]Route // of ended messages
	asked            []Delivery       // the open question, as its destinations got it
	walk             walk
}

// walk is a look at all lines that several calls of Take share.
type walk struct {
	from, behind string // the last call began after the line from; the next one begins after the line behind
	was, soonest int64  // At of the lines before
}

// Route is the destination of a message's outcome.
type Route struct {
	To      string
	Context string // JSON that every delivery repeats
	Of      string // the message that it repeats

	Within int64 // of a new message: how long its end may be delivered, ms; 0: by its destination
}

// NoReply is the destination of a message without a delivery.
const NoReply = "-"

// Delivery is a record of the outbox.
type Delivery struct {
	Route
	Sequence, First, At int64 // First: the sequence under which it was stored first
	Type                string
	Messages            []string
	Told                string // the outcome, the question or the turn

	By int64 // when its delivery expires; 0: by its destination's age

	GaveUp int64 // when, ms
	Why    string
	Maybe  bool // it may have been delivered before it was given up
}

// Attempts are those to deliver the first record of a destination's line.
type Attempts struct {
	Count  int
	At     int64 // the next one is not before
	Unsure bool  // the response to one of them is unknown
	Token  int64 // of the last lease
	Leased bool  // it was not released
	Till   int64
}

func (s *Session) clearOutbox() {
	s.Outbox = Outbox{Owed: map[string]Route{}, DeliverBy: map[string]int64{}, Attempts: map[string]Attempts{}, remembered: map[string]Route{}, leases: s.leases}
}

// route returns the route of a new message: the message's, else the session's, else the sender's.
func (s *Session) route(to Route, fallback string) *Route {
	for _, name := range []string{to.To, s.ReplyTo, fallback} {
		if name == NoReply {
			return nil
		}
		if name != "" {
			return &Route{To: name, Context: to.Context}
		}
	}
	return nil
}

// promise records that the end of a message must be delivered to its route.
func (s *Session) promise(m *Message) {
	if m.Route == nil {
		return
	}
	if _, owed := s.Owed[m.ID]; !owed {
		delete(s.DeliverBy, m.ID)
	}
	s.Owed[m.ID] = *m.Route
}

// repeat makes a message the repetition of another one, with the same route.
func (s *Session) repeat(m, of *Message) {
	if of.Route != nil {
		m.Route = &Route{To: of.Route.To, Context: of.Route.Context, Of: of.ID}
		s.promise(m)
	}
}

// ends reports the end of messages to the stream and to each of their routes.
func (s *Session) ends(status string, turn int, why string, group ...*Message) {
	event := func(ids []string) string { return ended(status, turn, ids, why) }
	s.tell(event(ids(group)))
	kind := status
	if status == "interrupted" && strings.HasPrefix(why, "rolled back") {
		kind = "rolled_back"
	}
	s.record("message."+kind, event, group)
	s.kept(group)
}

// kept removes messages from Owed.
func (s *Session) kept(group []*Message) {
	for _, m := range group {
		if m.Route != nil { // else the promise is for an earlier message with that ID
			delete(s.Owed, m.ID)
			delete(s.DeliverBy, m.ID)
			s.remembered[m.ID] = *m.Route
		}
	}
}

// record stores a record for each route of the messages. The record and its content name the messages
// with the route.
func (s *Session) record(kind string, told func(ids []string) string, group []*Message) (all []Delivery) {
	for i, m := range group {
		if m.Route == nil || slices.ContainsFunc(group[:i], m.sameRoute) {
			continue
		}
		same := slices.DeleteFunc(slices.Clone(group), func(other *Message) bool { return !m.sameRoute(other) })
		r := Delivery{Route: *m.Route, Type: kind, Messages: ids(same), Told: told(ids(same)), At: s.Now}
		if kind != "message.withdrawn" { // which is no reply
			r.By = s.ownEnd(same)
		}
		all = append(all, s.store(r))
	}
	return all
}

// ownEnd is the latest DeliverBy of messages, 0 if one of them has none.
func (s *Session) ownEnd(group []*Message) (latest int64) {
	for _, m := range group {
		by, ok := s.DeliverBy[m.ID]
		if !ok {
			return 0
		}
		latest = max(latest, by)
	}
	return latest
}

// store appends a record. Sequences rise with Redis' clock.
func (s *Session) store(r Delivery) Delivery {
	s.sequence = max(s.sequence+1, s.Now)
	r.Sequence = s.sequence
	if r.First == 0 {
		r.First = r.Sequence
	}
	s.Stored = append(s.Stored, r)
	return r
}

func (m *Message) sameRoute(other *Message) bool {
	return other.Route != nil && m.Route != nil && *other.Route == *m.Route
}

func ids(group []*Message) (ids []string) {
	for _, m := range group {
		ids = append(ids, m.ID)
	}
	return ids
}

// all are the messages with these IDs.
func (s *Session) all(ids []string) (group []*Message) {
	for _, id := range ids {
		group = append(group, s.Messages[id])
	}
	return group
}

// asks stores the agent's question for the routes of the running turn.
func (s *Session) asks(number int) {
	s.closeQuestion()
	question := fmt.Sprintf("question %d of %s", number, label(s.Run.Fence))
	s.asked = s.record("question.asked", always(question), s.all(s.Run.IDs))
}

func always(told string) func([]string) string { return func([]string) string { return told } }

// closeQuestion stores the question's end for them. A question that nobody can have delivered yet is
// removed instead.
func (s *Session) closeQuestion() {
	open := s.asked
	s.asked = nil
	for _, r := range open {
		a, tried := s.Attempts[r.To]
		first := s.first(r.To)
		tried = tried && (a.Leased && a.Till > s.Now || first >= 0 && s.Stored[first].Sequence == r.Sequence)
		if !tried && s.unstore(r.To, r.Sequence) != nil {
			continue
		}
		r.Type, r.First, r.At, r.By = "question.closed", 0, s.Now, 0
		r.Told, _, _ = strings.Cut(r.Told, " of ")
		s.store(r)
	}
}

// first is the place of a destination's first record, -1: there is none.
func (s *Session) first(to string) int {
	return slices.IndexFunc(s.Stored, func(r Delivery) bool { return r.To == to })
}

// unstore removes a record from its line. Nil: it is not there.
func (s *Session) unstore(to string, sequence int64) *Delivery {
	i := slices.IndexFunc(s.Stored, func(r Delivery) bool { return r.To == to && r.Sequence == sequence })
	if i < 0 {
		return nil
	}
	r := s.Stored[i]
	s.Stored = slices.Delete(s.Stored, i, i+1)
	return &r
}

// owes reports whether a delivery is promised or stored.
func (s *Session) owes() bool { return len(s.Owed)+len(s.Stored) > 0 }

// counts is the number of a destination's promised and stored deliveries.
func (s *Session) counts() map[string]int {
	n := map[string]int{}
	for _, r := range s.Owed {
		n[r.To]++
	}
	for _, r := range s.Stored {
		n[r.To]++
	}
	return n
}
