package checker

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"turnstile/chaos/internal/history"
	"turnstile/chaos/internal/traffic"
)

// deliveries: the outcome of a message with a route was handled by its receiver, once, signed, in order,
// and what came twice says so.
func (r *run) deliveries() {
	type line struct {
		id       string
		sequence int64
	}
	last := map[string]line{}
	first := map[string]history.Record{}   // by delivery: its first arrival
	handled := map[string]history.Record{} // by delivery: the arrival that was handled
	for _, p := range r.records {
		if p.Kind != history.Post {
			continue
		}
		if !p.Valid {
			r.find(Delivered, p.Session, p.ID, "its signature or its time is wrong")
		}
		if p.Error != "" {
			r.find(Delivered, p.Session, p.ID, "%s", p.Error)
		}
		if one, ok := first[p.ID]; !ok {
			if l := last[p.Session]; p.N <= l.sequence {
				r.find(Delivered, p.Session, p.ID, "it came first at %s with the sequence %d, behind %s with %d", at(p.At), p.N, l.id, l.sequence)
			}
			first[p.ID], last[p.Session] = p, line{p.ID, p.N}
		} else if one.Sum != p.Sum {
			r.find(Delivered, p.Session, p.ID, "its bytes differ between two attempts")
		}
		one, before := handled[p.ID]
		if before && !p.Again {
			r.find(Delivered, p.Session, p.ID, "the attempt at %s does not say that an earlier one, at %s, may have been handled", at(p.At), at(one.At))
		}
		if before && p.Done {
			r.find(Delivered, p.Session, p.ID, "it was handled twice, at %s and %s", at(one.At), at(p.At))
		}
		if p.Done && !before {
			handled[p.ID] = p
		}
	}
	r.handled(first, handled)
	for _, m := range r.sorted {
		done := slices.ContainsFunc(m.posts, func(p history.Record) bool { return p.Done })
		switch {
		case m.accepted != 0 && m.first.Route != "" && !done:
			r.find(Delivered, m.session, m.id, "its destination did not handle its outcome")
		case m.first.At != 0 && m.first.Route == "" && len(m.posts) > 0:
			r.find(Delivered, m.session, m.id, "it was delivered, and has no destination")
		}
		if m.strict() && m.final != nil && m.final.Status == "done" {
			for _, p := range m.posts {
				if p.Name != "message.done" || p.Reply != m.final.Reply {
					r.find(Delivered, m.session, m.id, "it is done with %q, and %s with %q was delivered", m.final.Reply, p.Name, p.Reply)
				}
			}
		}
	}
}

// handled: the outcome of a message was handled in one delivery, and outcomes in the order in which their
// turns ended. A delivery with another sequence than at its first arrival was redriven, and may come late.
func (r *run) handled(first, handled map[string]history.Record) {
	type outcome struct {
		m        *message
		turn     int64 // when it began: a session's turns end in the order in which they begin
		sequence int64
	}
	bySession := map[string][]outcome{}
	for _, m := range r.sorted {
		var ids []string // of the deliveries
		for _, p := range m.posts {
			if p.Done && strings.HasPrefix(p.Name, "message.") && p.Name != "message.withdrawn" && !slices.Contains(ids, p.ID) {
				ids = append(ids, p.ID)
			}
		}
		if !m.strict() || len(ids) == 0 {
			continue
		}
		if len(ids) > 1 {
			r.find(Delivered, m.session, m.id, "its outcome was handled in several deliveries: %v", ids)
		}
		p := handled[ids[0]]
		if m.final == nil || m.final.Status != "done" || p.N != first[p.ID].N {
			continue
		}
		for _, t := range m.sights {
			if t.turn.Turn == m.final.Turn && t.turn.Kind == history.Turn {
				bySession[m.session] = append(bySession[m.session], outcome{m, t.at, p.N})
				break
			}
		}
	}
	for _, all := range bySession {
		slices.SortFunc(all, func(a, b outcome) int {
			return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.sequence, b.sequence))
		})
		for i, o := range all[min(1, len(all)):] {
			if before := all[i]; before.turn < o.turn && before.sequence > o.sequence {
				r.find(Delivered, o.m.session, o.m.id, "its outcome was handled before that of %s, whose turn ended before", before.m.id)
			}
		}
	}
}

// waits: who waited was told what is stored.
func (r *run) waits() {
	for _, rec := range r.records {
		if rec.Kind != history.Wait && rec.Kind != history.Response {
			continue
		}
		m := r.message(rec.Session, rec.ID)
		if !m.strict() || m.final == nil {
			continue
		}
		switch {
		case rec.Kind == history.Response:
			r.response(m, rec)
		case rec.Error != "":
			r.find(Exits, m.session, m.id, "a wait (%s) from %s to %s ended with: %s", rec.Via, at(rec.Since), at(rec.At), rec.Error)
		case rec.Status != m.final.Status || rec.Reply != m.final.Reply:
			r.find(Exits, m.session, m.id, "a wait (%s) was told %s %q, and %s %q is stored", rec.Via, rec.Status, rec.Reply, m.final.Status, m.final.Reply)
		}
	}
}

// response: what OpenAI's API streamed is what is stored.
func (r *run) response(m *message, rec history.Record) {
	want := map[string]string{"done": "completed", "failed": "failed"}[m.final.Status] // nothing else happens to its session
	switch {
	case rec.Error != "":
		r.find(Exits, m.session, m.id, "its response: %s", rec.Error)
	case rec.Status != want:
		r.find(Exits, m.session, m.id, "its response is %s, and it is %s", rec.Status, m.final.Status)
	case want == "completed" && rec.Reply != m.final.Reply:
		r.find(Exits, m.session, m.id, "its response has the text %q, and the stored reply is %q", rec.Reply, m.final.Reply)
	case want == "completed" && rec.Via != "chat" && rec.Text != m.final.Reply:
		r.find(Exits, m.session, m.id, "the pieces of its response are %q, and the stored reply is %q", rec.Text, m.final.Reply)
	}
}

// streams: a follower saw each stored event once, in order.
func (r *run) streams() {
	for _, rec := range r.records {
		if rec.Kind != history.Stream {
			continue
		}
		stored := r.events[rec.Session]
		for i, id := range rec.IDs {
			if i >= len(stored) || id != stored[i].ID {
				want := "nothing"
				if i < len(stored) {
					want = stored[i].ID
				}
				r.find(Exits, rec.Session, "", "a follower's event %d is %s, and the stream has %s", i, id, want)
				break
			}
		}
		if rec.Reason != "" {
			r.find(Exits, rec.Session, "", "a follower was told: %s", rec.Reason)
		}
		if len(rec.IDs) < len(stored) && traffic.KindOf(rec.Session) != "" {
			r.find(Exits, rec.Session, "", "a follower saw %d of %d events", len(rec.IDs), len(stored))
		}
	}
}

// texts: the reply of a turn that is done begins with the text of its stored events. (The last piece
// may be in the reply only.)
func (r *run) texts() {
	for _, session := range slices.Sorted(maps.Keys(r.events)) {
		texts := map[string]string{} // of each turn whose start is stored, since its last tool or steer
		for _, rec := range r.events[session] {
			var e struct{ Type, Turn, Text, Status, Reply string }
			if json.Unmarshal([]byte(rec.Text), &e) != nil {
				continue
			}
			text, started := texts[e.Turn]
			switch {
			case e.Type == "turn_started" || started && (e.Type == "tool_end" || e.Type == "steered" || e.Type == "turn_retry"):
				texts[e.Turn] = ""
			case e.Type == "text" && started:
				texts[e.Turn] = text + e.Text
			case e.Type == "turn_ended" && e.Status == "done" && !strings.HasPrefix(e.Reply, text):
				r.find(Exits, session, "", "the events of turn %s have the text %q, and its reply is %q", e.Turn, text, e.Reply)
			}
		}
	}
}
