package reference

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// pictureOutbox adds the outbox to a picture.
func (s *Session) pictureOutbox(p Picture) {
	var routes, owed, counts, stored, undelivered, attempts, asked []string
	for id, m := range s.Messages {
		if m.Route != nil {
			routes = append(routes, id+" to "+m.Route.String())
		}
	}
	for id, route := range s.Owed {
		text := id + " to " + route.String()
		if by, ok := s.DeliverBy[id]; ok {
			text += " by " + s.at(by)
		}
		owed = append(owed, text)
	}
	for to, n := range s.counts() {
		counts = append(counts, fmt.Sprint(to, " ", n))
	}
	for _, to := range s.lines() {
		for _, r := range s.Stored {
			if r.To == to {
				stored = append(stored, r.Text(s.start))
			}
		}
	}
	for _, r := range s.Undelivered {
		undelivered = append(undelivered, fmt.Sprintf("%s given up %s: %s", r.Text(s.start), s.at(r.GaveUp), r.Why))
	}
	for to, a := range s.Attempts {
		attempts = append(attempts, to+" "+a.Text(s.start))
	}
	for _, r := range s.asked {
		asked = append(asked, fmt.Sprintf("%s %+d", r.To, r.Sequence-s.start))
	}
	for _, list := range [][]string{routes, owed, counts, attempts} {
		slices.Sort(list)
	}
	p["routes"], p["owed"], p["counts"] = strings.Join(routes, "; "), strings.Join(owed, "; "), strings.Join(counts, "; ")
	p["outbox"], p["undelivered"] = strings.Join(stored, "\n      "), strings.Join(undelivered, "\n      ")
	p["attempts"], p["asked"] = strings.Join(attempts, "; "), strings.Join(asked, "; ")
	p["sequence"] = s.at(s.sequence)
	if w := s.walk; w.from != "" || w.behind != "" || w.soonest > 0 {
		p["walk"] = fmt.Sprintf("%s %s, %s %s", cmp.Or(w.from, "-"), s.at(w.was), cmp.Or(w.behind, "-"), s.at(w.soonest))
	}
	if at := s.Index.Outbox; at > 0 {
		p["index of outboxes"] = s.at(at)
	}
}

func (r Route) String() string {
	text := r.To
	if r.Of != "" {
		text += " again " + r.Of
	}
	return strings.TrimSpace(text + " " + r.Context)
}

// Text is a delivery in the form of pictures. Its numbers are ms since the life's start.
func (r Delivery) Text(start int64) string {
	text := fmt.Sprintf("%+d (%+d) at %+d: %s %v to %s: %s", r.Sequence-start, r.First-start, r.At-start, r.Type, r.Messages, r.Route, r.Told)
	if r.By > 0 {
		text += ", by " + At(r.By, start)
	}
	if r.Maybe {
		text += ", perhaps delivered"
	}
	return text
}

// Text shows the state of the attempts, in the form of pictures.
func (a Attempts) Text(start int64) string {
	return fmt.Sprintf("%d, unsure %v, next %s, leased %v till %s", a.Count, a.Unsure, At(a.At, start), a.Leased, At(a.Till, start))
}
