package engine

import (
	"sync"
	"time"

	"turnstile/internal/protocol"
)

// roster is the sessions that a worker runs. It is where a drain reaches them: a session
// whose claim was on its way hears of the drain when it joins.
type roster struct {
	deps *turnDeps

	mu        sync.Mutex
	sessions  map[*sessionRun]struct{}
	recovered Recovered
	drain     drainState
	left      chan struct{} // during a drain: a session has ended
}

// drainState is how far a drain is.
type drainState struct {
	phase  drainPhase
	reason Reason
	until  time.Time       // when the turns are interrupted that still run
	ends   map[outcome]int // how the sessions' last turns ended since
}

type drainPhase int

const (
	notDraining  drainPhase = iota
	letting                 // the turns may end by themselves
	interrupting            // they are interrupted, and so is any that begins now
)

// outcome is how a session's last turn ended on this worker.
type outcome string

// The outcomes, as the log names them.
const (
	outcomeFinished  outcome = "finished"
	outcomeGivenBack outcome = "given_back"
	outcomeLost      outcome = "lost"
)

func newRoster(deps *turnDeps) *roster {
	return &roster{deps: deps, sessions: map[*sessionRun]struct{}{}, left: make(chan struct{}, 1)}
}

// join adds a session that was claimed just now.
func (r *roster) join(claim *protocol.Claim) *sessionRun {
	s := &sessionRun{claim: claim, deps: r.deps, log: r.deps.opts.Logger.With("session", claim.Session())}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions[s] = struct{}{}
	if r.drain.phase != notDraining {
		s.notice = r.deps.opts.notice(r.drain.reason)
	}
	if r.drain.phase == interrupting {
		s.drained = drainError{r.drain.reason}
	}
	switch t := claim.Turn(); {
	case t.Reset != "":
		r.recovered.Suspended++
		s.log.Warn("the session begins anew", "reason", t.Reset, "suspended", r.recovered.Suspended)
	case t.Resume != "":
		r.recovered.Resumed++
	}
	return s
}

// leave takes a session off the roster.
func (r *roster) leave(s *sessionRun, last outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, s)
	if r.drain.phase == notDraining {
		return
	}
	r.drain.ends[last]++
	select {
	case r.left <- struct{}{}:
	default: // the report has not yet taken the last one
	}
}

// all are the sessions that run now.
func (r *roster) all() []*sessionRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.allLocked()
}

func (r *roster) allLocked() []*sessionRun {
	all := make([]*sessionRun, 0, len(r.sessions))
	for s := range r.sessions {
		all = append(all, s)
	}
	return all
}

func (r *roster) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions)
}

// running are the claims of those sessions that run a turn.
func (r *roster) running() []*protocol.Claim {
	var claims []*protocol.Claim
	for _, s := range r.all() {
		if s.runs() {
			claims = append(claims, s.claim)
		}
	}
	return claims
}

// beginDrain lets nobody join any more without hearing of the drain, and returns who had.
func (r *roster) beginDrain(reason Reason, timeout time.Duration) []*sessionRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain = drainState{phase: letting, reason: reason, until: time.Now().Add(timeout), ends: map[outcome]int{}}
	return r.allLocked()
}

// timeIsUp has turns interrupted that begin from now on.
func (r *roster) timeIsUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain.phase, r.drain.until = interrupting, time.Now()
}

// drainReason is that of the drain, "" without one.
func (r *roster) drainReason() Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drain.reason
}

// counted is how many sessions were recovered so far.
func (r *roster) counted() Recovered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recovered
}

// Recovered counts the sessions that a worker has claimed after turns of theirs
// had been interrupted, by a drain or by their worker's death.
type Recovered struct {
	Resumed   int // marked: they went on in the same transcript
	Suspended int // they began anew, in a fresh one
}
