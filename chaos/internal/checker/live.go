package checker

import (
	"cmp"
	"math"
	"slices"

	"turnstile/chaos/internal/agents"
	"turnstile/chaos/internal/history"
)

// live: after the last fault everything ended within a bound.
func (r *run) live() {
	for _, rec := range r.records {
		if rec.Kind == history.Drained && rec.Status != "ok" {
			r.find(Live, "", "", "%s", rec.Status)
		}
	}
	if !slices.ContainsFunc(r.records, func(rec history.Record) bool { return rec.Kind == history.Drained }) {
		r.find(Live, "", "", "the history has no end: the harness died")
	}
}

// bounded: a message runs again only if something happened to its turn. Commands and operators put
// messages back in line themselves.
func (r *run) bounded() {
	for _, m := range r.sorted {
		if !m.strict() {
			continue
		}
		sights := slices.SortedFunc(slices.Values(m.sights), func(a, b sight) int { return cmp.Compare(a.at, b.at) })
		for i := 1; i < len(sights); i++ {
			before, now := sights[i-1], sights[i]
			// A fault acts for a lease and for what an interrupted agent is granted.
			from := before.at - int64(r.TTL+r.Drain+r.Grace)
			if !r.faultIn(from, now.at) && !r.stalledIn(from, now.at) && !r.endedToRetry(before) {
				r.find(Bounded, m.session, m.id, "an agent saw it at %s and another one at %s, without a fault between", at(before.at), at(now.at))
			}
		}
	}
}

// poison: a message whose agent kills its worker is archived when STUCK_LIMIT workers have died of it.
// The first death may not count, if the worker had not reached Redis since its claim. Other faults
// interrupt turns as well, and the third interruption in a row only ends the message if it is a death.
func (r *run) poison() {
	for _, m := range r.sorted {
		if m.first.Plan != agents.EndPoison || !m.strict() || len(m.sights) == 0 {
			continue
		}
		deaths := 0
		from, to := int64(math.MaxInt64), int64(0)
		for _, s := range m.sights {
			if from, to = min(from, s.at), max(to, s.at); s.turn.Via != "openai" {
				deaths++
			}
		}
		most := r.StuckLimit + 1
		if slices.ContainsFunc(r.faults, func(f history.Record) bool { return f.Name != agents.WorkerKilled && f.Since <= to && f.At >= from }) {
			most *= 2
		}
		if deaths > most {
			r.find(Bounded, m.session, m.id, "it killed its worker %d times, from %s to %s", deaths, at(from), at(to))
		}
	}
}

func (r *run) endedToRetry(s sight) bool {
	for _, id := range s.turn.IDs {
		if r.message(s.turn.Session, id).first.Plan == "retry" {
			return true
		}
	}
	return false
}

// leftovers: no process, no key, no panic.
func (r *run) leftovers() {
	for _, rec := range r.records {
		if rec.Kind == history.Left {
			r.find(Leftover, rec.Session, rec.ID, "%s %s: %s", rec.Name, rec.Target, rec.Error)
		}
	}
}
