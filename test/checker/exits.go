package checker

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"turnstile/test/history"
)

// waits: a wait returns the stored outcome.
func (r *run) waits() {
	for _, rec := range r.records {
		if rec.Kind != history.Wait && rec.Kind != history.Response {
			continue
		}
		m := r.message(rec.Session, rec.ID)
		switch {
		case rec.Status == "unknown" && m.accepted != 0 && !r.deleted(m):
			r.find(Lost, m.session, m.id, "it was accepted at %s by %s, and a wait ended at %s because it is unknown", at(m.accepted), m.first.Via, at(rec.At))
		case !m.strict() || m.final == nil:
		case rec.Kind == history.Response:
			r.response(m, rec)
		case rec.Error != "":
			r.find(Told, m.session, m.id, "a wait (%s) from %s to %s ended with: %s", rec.Via, at(rec.Since), at(rec.At), rec.Error)
		case rec.Status != m.final.Status || rec.Reply != m.final.Reply:
			r.find(Told, m.session, m.id, "a wait (%s) was told %s %q, and %s %q is stored", rec.Via, rec.Status, rec.Reply, m.final.Status, m.final.Reply)
		}
	}
}

// response: OpenAI's API streams the stored outcome.
func (r *run) response(m *message, rec history.Record) {
	want := map[string]string{"done": "completed", "failed": "failed"}[m.final.Status] // nothing else happens to its session
	switch {
	case rec.Error != "":
		r.find(Told, m.session, m.id, "its response: %s", rec.Error)
	case rec.Status != want:
		r.find(Told, m.session, m.id, "its response is %s, and it is %s", rec.Status, m.final.Status)
	case want == "completed" && rec.Reply != m.final.Reply:
		r.find(Told, m.session, m.id, "its response has the text %q, and the stored reply is %q", rec.Reply, m.final.Reply)
	case want == "completed" && rec.Via != "chat" && rec.Text != m.final.Reply:
		r.find(Told, m.session, m.id, "the pieces of its response are %q, and the stored reply is %q", rec.Text, m.final.Reply)
	}
}

// streams: a follower got each stored event once, in order. It may miss events of a short stream, and
// may have others that are no longer stored.
func (r *run) streams() {
	for session, records := range r.followed {
		var ids []string
		for _, rec := range records {
			switch {
			case rec.Kind == history.Stream:
			case rec.Name == "reset", rec.Name == "gap" && !r.Gaps:
				r.find(Followed, session, "", "a follower got a %s at %s", rec.Name, at(rec.At))
			case rec.Name == "gap":
			case len(ids) > 0 && !later(rec.ID, ids[len(ids)-1]):
				r.find(Followed, session, "", "a follower got the event %s after %s", rec.ID, ids[len(ids)-1])
			default:
				ids = append(ids, rec.ID)
			}
		}
		var stored []string
		for _, e := range r.events[session] {
			stored = append(stored, e.ID)
		}
		if r.Gaps && len(stored) > 0 {
			ids = ids[max(0, slices.Index(ids, stored[0])):]
		}
		for i := range max(len(ids), len(stored)) {
			if got, want := append(ids, "nothing")[min(i, len(ids))], append(stored, "nothing")[min(i, len(stored))]; got != want {
				r.find(Followed, session, "", "a follower's event %d of %d is %s, and the stream's %d have %s there", i, len(ids), got, len(stored), want)
				break
			}
		}
		r.texts(session, records)
	}
	for session, events := range r.events {
		r.texts(session, events)
	}
}

// later compares event IDs: MS-N.INDEX.
func later(a, b string) bool {
	var x, y [3]int64
	_, _ = fmt.Sscanf(a, "%d-%d.%d", &x[0], &x[1], &x[2])
	_, _ = fmt.Sscanf(b, "%d-%d.%d", &y[0], &y[1], &y[2])
	return slices.Compare(x[:], y[:]) > 0
}

// piece is a piece of an agent's text.
var piece = regexp.MustCompile(`\w+\.\d+ `)

// texts: a turn has each piece of its text once. The reply of a turn that is done begins with the text of
// its events, and may have one more piece. The reply is checked if the turn's start is stored.
func (r *run) texts(session string, events []*history.Record) {
	texts := map[string]string{} // by turn: since its last tool or steer
	type once struct{ turn, piece string }
	pieces := map[once]bool{}
	for _, rec := range events {
		if rec.Name == "gap" {
			clear(texts)
			clear(pieces)
		}
		var e struct{ Type, Turn, Text, Status, Reply string }
		if json.Unmarshal([]byte(rec.Text), &e) != nil {
			continue
		}
		text, started := texts[e.Turn]
		switch {
		case e.Type == "turn_started" || started && (e.Type == "tool_end" || e.Type == "steered" || e.Type == "turn_retry"):
			texts[e.Turn] = ""
			if strings.HasPrefix(e.Type, "turn_") {
				clear(pieces)
			}
		case e.Type == "text":
			for _, p := range piece.FindAllString(e.Text, -1) {
				if pieces[once{e.Turn, p}] {
					r.find(Followed, session, "", "the events of turn %s have the piece %q twice", e.Turn, p)
				}
				pieces[once{e.Turn, p}] = true
			}
			if started {
				texts[e.Turn] = text + e.Text
			}
		case e.Type == "turn_ended" && e.Status == "done" && !strings.HasPrefix(e.Reply, text):
			r.find(Followed, session, "", "the events of turn %s have the text %q, and its reply is %q", e.Turn, text, e.Reply)
		}
	}
}
