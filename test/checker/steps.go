package checker

import (
	"encoding/json"
	"slices"
	"strings"

	"turnstile/test/history"
)

// step is a step of a message. Its name has the message's ID.
type step struct{ session, name string }

// steps: what a turn has stored of its steps holds in all of its runs.
func (r *run) steps() {
	begun, ended, named := map[step]*history.Record{}, map[step]*history.Record{}, map[step]string{}
	storedIn := map[string]bool{} // turn and step
	for i := range r.records {
		rec := &r.records[i]
		at := step{rec.Session, rec.Name}
		switch rec.Kind {
		case history.Stepped:
			storedIn[rec.Turn+" "+rec.Name] = true
			if ended[at] == nil {
				ended[at] = rec
			}
		case history.Step:
			r.again(rec, begun[at], ended[at])
			begun[at] = rec
		case history.Event: // these are the last records, in their order
			name, turn := unknownStep(rec.Text)
			at.name = name
			before := named[at]
			if named[at] = turn; before == "" || name == "" {
				continue
			}
			a, b := r.began(rec.Session, before), r.began(rec.Session, turn)
			if a != nil && b != nil && (before == turn || storedIn[before+" "+name] && !r.apart(a, b)) {
				r.find(Steps, rec.Session, "", "%s is named as unknown in turn %s, and again in turn %s", name, before, turn)
			}
		}
	}
	for _, m := range r.sorted {
		if m.final == nil || m.final.Status != "done" || !m.strict() || len(r.shared[m.final.Turn]) > 1 {
			continue
		}
		last := r.began(m.session, m.final.Turn)
		if last == nil {
			continue
		}
		var want, got []string // of the last turn's agent: another one, as chaos has them, does not know the steps
		for at := range ended {
			if at.session == m.session && ended[at].ID == m.id && ended[at].Via == last.Via {
				want = append(want, at.name)
			}
		}
		for _, e := range r.entries[m.session] {
			if _, ok := ended[step{m.session, e.Name}]; ok && e.Turn == m.final.Turn {
				got = append(got, e.Name)
			}
		}
		if slices.Sort(want); len(want) > 0 && !slices.Equal(got, want) {
			r.find(Steps, m.session, m.id, "the ends of %q were stored, and its turn %s has %q", want, m.final.Turn, got)
		}
	}
}

// again checks a step that is done, after an earlier time and a stored end, if there are any.
func (r *run) again(rec, begun, ended *history.Record) {
	if begun != nil && begun.Sum != rec.Sum && begun.Sum != "" && rec.Sum != "" && !r.ofRetry(rec) {
		r.find(Steps, rec.Session, rec.ID, "%s has the idempotency key %s in turn %s, and %s in %s", rec.Name, begun.Sum, begun.Turn, rec.Sum, rec.Turn)
	}
	switch {
	case ended != nil && !r.apart(ended, rec):
		r.find(Steps, rec.Session, rec.ID, "the end of %s was stored in turn %s at %s, and turn %s does it again", rec.Name, ended.Turn, at(ended.At), rec.Turn)
	case begun != nil && !rec.Again && !r.apart(begun, rec):
		r.find(Steps, rec.Session, rec.ID, "turn %s did %s at %s, and %s does it again", begun.Turn, rec.Name, at(begun.At), rec.Turn)
	}
}

// ofRetry reports whether a step's message is not one of its turn's: /retry has sent its text again, as another one.
func (r *run) ofRetry(rec *history.Record) bool {
	return slices.ContainsFunc(r.turns[rec.Session], func(t *history.Record) bool {
		return t.Kind == history.Turn && t.Turn == rec.Turn && !slices.Contains(t.IDs, rec.ID)
	})
}

// apart reports whether two runs of a message may be two turns: another message's turn came between, or
// somebody has requeued the ended message.
func (r *run) apart(a, b *history.Record) bool {
	return r.rerun(r.message(b.Session, b.ID)) || slices.ContainsFunc(r.turns[b.Session], func(t *history.Record) bool {
		return t.Kind == history.Turn && t.At > a.At && t.At < b.At && !slices.Contains(t.IDs, b.ID)
	})
}

// began returns the record of a turn's beginning, with its first message, or nil.
func (r *run) began(session, turn string) *history.Record {
	for _, t := range r.turns[session] {
		if t.Kind == history.Turn && t.Turn == turn {
			rec := *t
			rec.ID = t.IDs[0]
			return &rec
		}
	}
	return nil
}

// unknownStep returns the step that an event names as unknown, and its turn, or nothing.
func unknownStep(event string) (name, turn string) {
	var e struct{ Type, Turn, Text string }
	if json.Unmarshal([]byte(event), &e) != nil || e.Type != "notice" {
		return "", ""
	}
	name, _, unknown := strings.Cut(e.Text, " was started before an interruption")
	if !unknown {
		return "", ""
	}
	return name, e.Turn
}
