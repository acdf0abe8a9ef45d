package checker

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"time"

	"turnstile/test/history"
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

const (
	// promptly is how long a session may wait for a free worker, and a delivery for a deliverer, while
	// nothing fails.
	promptly = time.Second

	// firstRetry is the longest wait after the first failure of a delivery.
	firstRetry = 1250 * time.Millisecond
)

// late: in the calm, an agent begins soon after its first message was accepted, and after the session's
// turn before. A result is posted soon after its turn, and again soon after the wait of one that got a 429.
func (r *run) late() {
	i := slices.IndexFunc(r.records, func(rec history.Record) bool { return rec.Kind == history.Calm })
	if i < 0 {
		return
	}
	calm := r.records[i].At
	isLate := func(from, began int64) bool { return from > calm && began-from > int64(promptly) }
	free, ended := map[string]int64{}, map[key]int64{}
	given := map[key]bool{}
	posted, before := map[key]bool{}, map[string]history.Record{}
	for _, rec := range r.records {
		switch rec.Kind {
		case history.Turn:
			from := max(r.message(rec.Session, rec.IDs[0]).accepted, free[rec.Session])
			if isLate(from, rec.At) {
				r.find(Late, rec.Session, rec.IDs[0], "turn %s began at %s, and could at %s", rec.Turn, at(rec.At), at(from))
			}
		case history.Ended:
			free[rec.Session] = rec.At
			if rec.Status == history.Parked && !given[key{rec.Session, rec.IDs[0]}] {
				free[rec.Session] = math.MaxInt64 // until the value is given
			}
			for _, id := range rec.IDs {
				ended[key{rec.Session, id}] = rec.At
			}
		case history.Given:
			given[key{rec.Session, rec.ID}] = true
			free[rec.Session] = min(free[rec.Session], rec.At)
		case history.Post:
			last := before[rec.Session] // the queue continues after it
			from, due := last.At, last.Code == http.StatusTooManyRequests
			if due {
				from += int64(firstRetry)
			}
			for _, id := range rec.IDs {
				k := key{rec.Session, id}
				if !posted[k] {
					from, due = max(from, ended[k]), true
				}
				posted[k] = true
			}
			if due && isLate(from, rec.At) {
				r.find(Late, rec.Session, rec.ID, "delivery %d was posted at %s, and could be at %s", rec.N, at(rec.At), at(from))
			}
			before[rec.Session] = rec
		}
	}
}

// bounded: a message runs again only if something happened to its turn. Commands and operators
// requeue messages too.
func (r *run) bounded() {
	for _, m := range r.sorted {
		if !m.strict() {
			continue
		}
		sights := slices.SortedFunc(slices.Values(m.sights), func(a, b sight) int { return cmp.Compare(a.at, b.at) })
		for i := 1; i < len(sights); i++ {
			before, now := sights[i-1], sights[i]
			// A fault acts for a lease, a drain and the grace of an interrupted agent.
			from := before.at - int64(r.TTL+r.Drain+r.Grace)
			if !r.faultIn(from, now.at) && !r.stalledIn(from, now.at) && !r.endedToRetry(before) && !r.parked(before) {
				r.find(Bounded, m.session, m.id, "an agent saw it at %s and another one at %s, without a fault between", at(before.at), at(now.at))
			}
		}
	}
}

// poison: a message that kills its worker is archived when STUCK_LIMIT workers have died of it. The
// first death may not count, if the worker had not reached Redis since its claim. Other faults
// interrupt turns as well, and the third interruption in a row ends the message only if it is a death.
func (r *run) poison() {
	for _, m := range r.sorted {
		if m.first.Plan != history.EndPoison || !m.strict() || len(m.sights) == 0 {
			continue
		}
		deaths := 0
		from, to := int64(math.MaxInt64), int64(0)
		for _, s := range m.sights {
			if from, to = min(from, s.at), max(to, s.at); s.turn.Via != "model" {
				deaths++
			}
		}
		most := r.StuckLimit + 1
		if slices.ContainsFunc(r.faults, func(f history.Record) bool { return f.Name != history.WorkerKilled && f.Since <= to && f.At >= from }) {
			most *= 2
		}
		if deaths > most {
			r.find(Bounded, m.session, m.id, "it killed its worker %d times, from %s to %s", deaths, at(from), at(to))
		}
	}
}

// endedToRetry reports whether a run ended in a way that is retried. For the agent model that is also a model's server that
// breaks the connection: it goes on after the last stored step.
func (r *run) endedToRetry(s sight) bool {
	retried := func(end string) bool {
		return end == history.EndRetry || s.turn.Via == "model" && (end == history.EndFail || end == history.EndDie)
	}
	return retried(s.turn.Plan) || slices.ContainsFunc(s.turn.IDs, func(id string) bool {
		return retried(r.message(s.turn.Session, id).first.Plan)
	})
}

// parked reports whether a message was seen by a run that waits without a worker.
func (r *run) parked(s sight) bool {
	return slices.ContainsFunc(r.turns[s.turn.Session], func(t *history.Record) bool {
		return t.Kind == history.Ended && t.Status == history.Parked && t.Turn == s.turn.Turn && t.Fence == s.turn.Fence
	})
}

// leftovers: no process, no key, no panic.
func (r *run) leftovers() {
	for _, rec := range r.records {
		if rec.Kind == history.Left {
			r.find(Leftover, rec.Session, rec.ID, "%s %s: %s", rec.Name, rec.Target, rec.Error)
		}
	}
}
