package checker

import (
	"slices"
	"time"

	"turnstile/test/history"
)

// exclusive: an agent that finds its session's lock taken runs at the same time as another one.
func (r *run) exclusive() {
	for session, turns := range r.turns {
		for _, t := range turns {
			if t.Kind == history.Turn && t.Overlap && !r.excused(t) {
				r.find(Exclusive, session, t.IDs[0], "an agent (%s, pid %d) began at %s while another one had the session's lock", t.Via, t.PID, at(t.At))
			}
		}
	}
}

// excused are the overlaps that docs/guarantees.md names:
//   - Redis' clock jumped ahead: sentinels end early, and the old owner's agent runs until its worker's
//     next renewal is refused, at most a third of the lease later, and then for the grace.
//   - A stopped worker's request to a model: no guardian can end it, as the request is the worker's
//     own connection. Its result is not written.
func (r *run) excused(t *history.Record) bool {
	jump := t.At - int64(r.TTL/3+r.Grace+3*time.Second)
	if r.faultIn(jump, t.At, "Redis' clock ahead") {
		return true
	}
	holder := r.holder(t)
	return holder != nil && holder.Via == "model" && r.faultIn(holder.At, t.At, "worker stopped past its lease")
}

// holder is the agent that had the lock when t began: the last earlier one that was still running.
func (r *run) holder(t *history.Record) (holder *history.Record) {
	for _, other := range r.turns[t.Session] {
		switch {
		case other.At >= t.At:
			return holder
		case other.Kind == history.Turn && !other.Overlap:
			holder = other
		}
	}
	return holder
}

// fenced: an agent of a session begins after the end of the one before it, with a higher fencing
// token. An agent has the lock from before its first record until after its last one, so the order of
// the first records is the lock's. A session with an overlap has a finding or an excuse already.
func (r *run) fenced() {
	type life struct {
		pid   int
		turn  string
		since int64
	}
	for session, turns := range r.turns {
		if slices.ContainsFunc(turns, func(t *history.Record) bool { return t.Overlap }) {
			continue
		}
		ends := map[life]int64{} // one that was killed has none
		for _, t := range turns {
			if t.Kind == history.Ended {
				ends[life{t.PID, t.Turn, t.Since}] = t.At
			}
		}
		free, fence := int64(0), int64(0)
		for _, t := range turns {
			if t.Kind != history.Turn {
				continue
			}
			if free > t.At {
				r.find(Fenced, session, "", "an agent (%s, pid %d) began at %s, and the one before it ended at %s", t.Via, t.PID, at(t.At), at(free))
			}
			if t.Fence != 0 && t.Fence <= fence { // 0: unknown to the agent
				r.find(Fenced, session, "", "turn %s has the fencing token %d, and an earlier one had %d", t.Turn, t.Fence, fence)
			}
			free, fence = max(free, ends[life{t.PID, t.Turn, t.Since}]), max(fence, t.Fence)
		}
	}
}
