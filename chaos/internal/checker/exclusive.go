package checker

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"turnstile/chaos/internal/history"
)

// exclusive: an agent that found its session's lock taken ran beside another one.
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
//     own connection. What comes of it is not written.
func (r *run) excused(t *history.Record) bool {
	jump := t.At - int64(r.TTL/3+r.Grace+3*time.Second)
	if r.faultIn(jump, t.At, "Redis' clock ahead") {
		return true
	}
	holder := r.holder(t)
	return holder != nil && holder.Via == "openai" && r.faultIn(holder.At, t.At, "worker stopped past its lease")
}

// holder is the agent that had the lock when t began: the last before it that had not ended.
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

// The lock of a session, as porcupine's model: its operations are what agents did.
type lockOp struct {
	release bool
	pid     int
	turn    string
	fence   int64 // 0: the agent does not know it
}

type lockState struct {
	held  bool
	pid   int
	turn  string
	fence int64 // the highest so far
}

var lock = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(lockState), input.(lockOp)
		if op.release {
			if !s.held || s.pid != op.pid || s.turn != op.turn {
				return false, s
			}
			s.held = false
			return true, s
		}
		if s.held || op.fence != 0 && op.fence <= s.fence {
			return false, s
		}
		return true, lockState{held: true, pid: op.pid, turn: op.turn, fence: max(s.fence, op.fence)}
	},
}

// fenced: there is an order in which each agent had the lock alone, with rising fencing tokens.
func (r *run) fenced() {
	for session, turns := range r.turns {
		ops, ok := r.operations(turns)
		if !ok {
			continue
		}
		if result := porcupine.CheckOperationsTimeout(lock, ops, 10*time.Second); result != porcupine.Ok {
			r.find(Fenced, session, "", "porcupine finds no order of its %d agents in which one lock is held by one at a time with rising fencing tokens (%s)", len(ops)/2, result)
		}
	}
}

// operations are a session's acquisitions and releases. A session with an overlap has findings or
// excuses already: then ok is false.
func (r *run) operations(turns []*history.Record) (ops []porcupine.Operation, ok bool) {
	type life struct {
		pid  int
		turn string
		at   int64
	}
	ended := map[life]int64{}
	for _, t := range turns {
		if t.Kind == history.Ended {
			ended[life{t.PID, t.Turn, t.Since}] = t.At
		}
	}
	n := 0
	for _, t := range turns {
		if t.Kind != history.Turn {
			continue
		}
		if t.Overlap {
			return nil, false
		}
		turn := t.Turn + at(t.Since)
		ops = append(ops, porcupine.Operation{ClientId: n, Input: lockOp{pid: t.PID, turn: turn, fence: t.Fence}, Call: t.Since, Return: t.At})
		// One that was killed released its lock at some time after it began.
		release := porcupine.Operation{ClientId: n, Input: lockOp{release: true, pid: t.PID, turn: turn}, Call: t.At, Return: math.MaxInt64}
		if end, ok := ended[life{t.PID, t.Turn, t.Since}]; ok {
			release.Call, release.Return = end, end+int64(time.Second)
		}
		ops = append(ops, release)
		n++
	}
	return ops, true
}
