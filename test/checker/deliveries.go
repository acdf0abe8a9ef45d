package checker

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"turnstile/test/history"
)

// deliveries: the receiver handles the outcome of a message with a route, once, signed, in order. A
// repetition is marked as one.
func (r *run) deliveries() {
	last := map[string]history.Record{}    // by session: the delivery that arrived last for the first time
	first := map[string]history.Record{}   // by delivery: its first arrival
	handled := map[string]history.Record{} // by delivery: the arrival that was handled
	for _, p := range r.records {
		if p.Kind != history.Post {
			continue
		}
		if !p.Valid {
			r.find(Signed, p.Session, p.ID, "its signature or its time is wrong")
		}
		if p.Error != "" {
			r.find(Signed, p.Session, p.ID, "%s", p.Error)
		}
		if one, ok := first[p.ID]; !ok {
			if l := last[p.Session]; p.N <= l.N {
				r.find(Sequence, p.Session, p.ID, "it came first at %s with the sequence %d, after %s with %d", at(p.At), p.N, l.ID, l.N)
			}
			first[p.ID], last[p.Session] = p, p
		} else if one.Sum != p.Sum {
			r.find(Repeated, p.Session, p.ID, "its bytes differ between two attempts")
		}
		one, before := handled[p.ID]
		if before && !p.Again && (one.Attempt < p.Attempt || one.At/int64(time.Second) < p.Since/int64(time.Second)) {
			r.find(Repeated, p.Session, p.ID, "the attempt at %s does not say that an earlier one, at %s, may have been handled", at(p.At), at(one.At))
		}
		if before && p.Done {
			r.find(Repeated, p.Session, p.ID, "it was handled twice, at %s and %s", at(one.At), at(p.At))
		}
		if p.Done && !before {
			handled[p.ID] = p
		}
	}
	for _, m := range r.sorted {
		r.delivered(m, first, handled)
	}
	r.sequence()
}

// isOutcome reports whether a post has the outcome of its messages.
func isOutcome(p history.Record) bool {
	return strings.HasPrefix(p.Name, "message.") && p.Name != "message.withdrawn"
}

// delivered: the outcome of a message was handled in one delivery, and equals the stored one.
func (r *run) delivered(m *message, first, handled map[string]history.Record) {
	var ids []string // of the deliveries of its outcome
	done := false
	for _, p := range m.posts {
		if !isOutcome(p) {
			continue
		}
		if done = done || p.Done; !slices.Contains(ids, p.ID) {
			ids = append(ids, p.ID)
		}
		if m.strict() && m.final != nil && m.final.Status == "done" && (p.Name != "message.done" || p.Reply != m.final.Reply) {
			r.find(Delivered, m.session, m.id, "it is done with %q, and %s with %q was delivered", m.final.Reply, p.Name, p.Reply)
		}
	}
	switch {
	case m.accepted != 0 && m.first.Route != "" && !done:
		r.find(Delivered, m.session, m.id, "its destination did not handle its outcome")
	case m.first.At != 0 && m.first.Route == "" && len(m.posts) > 0:
		r.find(Delivered, m.session, m.id, "it was delivered, and has no destination")
	case m.strict() && len(ids) > 1:
		r.find(Delivered, m.session, m.id, "its outcome came in several deliveries: %v", ids)
	case m.strict() && len(ids) == 1 && done && handled[ids[0]].N == first[ids[0]].N:
		m.sequence = handled[ids[0]].N
	}
}

// sequence: outcomes are handled in the order in which their turns ended. in order compares messages
// without a turn.
func (r *run) sequence() {
	type outcome struct {
		m    *message
		turn int64 // when it began: a session's turns end in the order in which they begin
	}
	bySession := map[string][]outcome{}
	for _, m := range r.sorted {
		if m.sequence == 0 || m.final == nil || m.final.Status != "done" {
			continue
		}
		for _, t := range m.sights {
			if t.turn.Turn == m.final.Turn && t.turn.Kind == history.Turn {
				bySession[m.session] = append(bySession[m.session], outcome{m, t.at})
				break
			}
		}
	}
	for _, all := range bySession {
		slices.SortFunc(all, func(a, b outcome) int {
			return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.m.sequence, b.m.sequence))
		})
		for i, o := range all[min(1, len(all)):] {
			if before := all[i]; before.turn < o.turn && before.m.sequence > o.m.sequence {
				r.find(Sequence, o.m.session, o.m.id, "its outcome was handled before that of %s, whose turn ended before", before.m.id)
			}
		}
	}
}
