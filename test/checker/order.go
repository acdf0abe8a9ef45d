package checker

import (
	"cmp"
	"slices"

	"turnstile/test/history"
)

// ordered reports whether a message has a place in its session's queue: it waits only for the
// messages before it, and nobody moves it.
func (m *message) ordered() bool {
	line := m.first.Mode == "queue" || m.first.Mode == "collect" && m.kind == history.Bursts
	return m.strict() && m.accepted != 0 && m.first.Delay == 0 && line
}

// order: of two messages, of which one was accepted before the other was first sent, the first
// one's run, entry and delivery come first.
func (r *run) order() {
	bySession := map[string][]*message{}
	for _, m := range r.sorted {
		if m.ordered() {
			bySession[m.session] = append(bySession[m.session], m)
		}
	}
	for _, all := range bySession {
		r.inOrder(all, "an agent saw", func(m *message) int64 {
			switch {
			case len(m.sights) == 0:
				return m.mentioned
			case m.mentioned == 0:
				return m.sights[0].at
			}
			return min(m.mentioned, m.sights[0].at)
		})
		r.inOrder(all, "its receiver handled", func(m *message) int64 { return m.sequence })
		bySID := map[string][]*message{}
		for _, m := range all {
			if len(m.entries) == 1 {
				bySID[m.entries[0].SID] = append(bySID[m.entries[0].SID], m)
			}
		}
		for _, same := range bySID {
			r.inOrder(same, "the transcript has", func(m *message) int64 { return m.entries[0].N + 1 })
		}
	}
}

// inOrder checks the places of a session's messages, which are sorted by their first attempts. Place
// 0 is none.
func (r *run) inOrder(all []*message, what string, place func(*message) int64) {
	byAccepted := slices.SortedFunc(slices.Values(all), func(a, b *message) int { return cmp.Compare(a.accepted, b.accepted) })
	var last *message // the one with the highest place of those that were accepted before
	next := 0
	for _, m := range all {
		for ; next < len(byAccepted) && byAccepted[next].accepted < m.first.At; next++ {
			if p := place(byAccepted[next]); p != 0 && (last == nil || p > place(last)) {
				last = byAccepted[next]
			}
		}
		if p := place(m); p != 0 && last != nil && last != m && p < place(last) {
			r.find(InOrder, m.session, m.id, "%s it before %s, which was accepted at %s, before it was sent at %s", what, last.id, at(last.accepted), at(m.first.At))
		}
	}
}

// interrupted reports whether messages that an agent was given after the transcript's may come from an
// interrupted turn. Its own messages shared that turn with them, and the agent gets the turn's entries.
func (r *run) interrupted(t *history.Record, others []string) bool {
	for _, id := range others {
		m := r.message(t.Session, id)
		if m.first.Mode != "collect" || m.accepted == 0 || m.first.At > t.At || !r.faultIn(m.first.At-int64(r.TTL), t.At) {
			return false
		}
	}
	return true
}

// recalled is how much of the users' words in a turn that failed or was stopped later turns are given, in bytes.
const recalled = 2 << 10

// history: an agent of exec or of simulate is given the whole transcript before its turn, and of a turn that failed or
// was stopped the messages whose words begin in its first 2 KB. A turn that was interrupted may have left entries of
// the turn's own messages.
func (r *run) history() {
	for session, entries := range r.entries {
		if kind := history.KindOf(session); kind != history.Plain && kind != history.Bursts {
			continue
		}
		before := map[string][]string{} // by turn: the messages before its first entry
		ids := map[string][]string{}    // by transcript
		ended := map[string]bool{}      // the turns that failed or were stopped
		said := map[string]int{}        // by turn: the bytes of its messages so far
		for _, e := range entries {
			ended[e.Turn] = ended[e.Turn] || e.Status != ""
		}
		for _, e := range slices.SortedFunc(slices.Values(entries), func(a, b history.Record) int { return cmp.Compare(a.N, b.N) }) {
			if _, ok := before[e.Turn]; !ok {
				before[e.Turn] = slices.Clone(ids[e.SID])
			}
			if e.Role == "user" {
				if !ended[e.Turn] || said[e.Turn] < recalled {
					ids[e.SID] = append(ids[e.SID], e.ID)
				}
				said[e.Turn] += len(e.Text)
			}
		}
		for _, t := range r.turns[session] {
			want, ok := before[t.Turn]
			if t.Kind != history.Turn || t.Via != "exec" && t.Via != history.Inside || !ok {
				continue
			}
			seen := slices.DeleteFunc(slices.Clone(t.Seen), func(id string) bool { return slices.Contains(t.IDs, id) })
			if n := min(len(want), len(seen)); !slices.Equal(seen[:n], want) || !r.interrupted(t, seen[n:]) {
				r.find(History, session, t.IDs[0], "the agent of turn %s was given the messages %v, and the transcript has %v before it", t.Turn, seen, want)
			}
		}
	}
}
