package worker

import (
	"fmt"
	"sync"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// roster has the sessions that a worker runs. A drain reaches them here. If a claim was in flight
// when the drain began, its session is drained when it joins.
type roster struct {
	deps *turnDeps

	mu        sync.Mutex
	sessions  map[*sessionRun]struct{}
	recovered recovered
	drain     drainState
	left      chan struct{} // receives when a session ends during a drain
}

// drainState is the progress of a drain.
type drainState struct {
	phase  drainPhase
	reason reason
	until  time.Time       // then the turns that still run are interrupted. Zero: never
	ends   map[outcome]int // counts how the sessions' last turns ended
}

type drainPhase int

const (
	notDraining  drainPhase = iota
	letting                 // turns may finish
	interrupting            // turns are interrupted, also those that begin now
)

// outcome is how a session's last turn ended on this worker.
type outcome string

// The outcomes. They are keys of the log.
const (
	outcomeFinished outcome = "finished"
	outcomeRequeued outcome = "requeued"
	outcomeLost     outcome = "lost"
)

func newRoster(deps *turnDeps) *roster {
	return &roster{deps: deps, sessions: map[*sessionRun]struct{}{}, left: make(chan struct{}, 1)}
}

// join adds a session that was just claimed.
func (r *roster) join(claim *protocol.Claim, seat *seat) *sessionRun {
	s := &sessionRun{claim: claim, seat: seat, deps: r.deps, log: r.deps.opts.Logger.With("session", claim.Session())}
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
		s.log.Warn("the session begins a new transcript", "reason", t.Reset, "suspended", r.recovered.Suspended)
	case t.Resume != "":
		r.recovered.Resumed++
	}
	return s
}

// leave removes a session.
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
	default: // the report has yet to notice an earlier one
	}
}

// all returns the sessions that run now.
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

// running returns the claims of the sessions that run a turn, and how many of them have a slot.
func (r *roster) running() (claims []*protocol.Claim, busy int) {
	for _, s := range r.all() {
		if !s.runs() {
			continue
		}
		claims = append(claims, s.claim)
		if !s.seat.lent.Load() {
			busy++
		}
	}
	return claims, busy
}

// beginDrain begins a drain and returns the sessions that run. Sessions that join later get its
// notice.
func (r *roster) beginDrain(why reason, timeout time.Duration) []*sessionRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain = drainState{phase: letting, reason: why, ends: map[outcome]int{}}
	if timeout != session.NoLimit {
		r.drain.until = time.Now().Add(timeout)
	}
	return r.allLocked()
}

// timeIsUp makes turns that begin from now on be interrupted.
func (r *roster) timeIsUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain.phase, r.drain.until = interrupting, time.Now()
}

// drainReason returns the drain's reason, "" without a drain.
func (r *roster) drainReason() reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drain.reason
}

// progress returns how many sessions run and, during a drain, how long turns may go on before they
// are interrupted.
func (r *roster) progress() (running int, left time.Duration, draining bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.drain.phase == notDraining:
		return len(r.sessions), 0, false
	case r.drain.until.IsZero():
		return len(r.sessions), session.NoLimit, true
	}
	return len(r.sessions), max(0, time.Until(r.drain.until)), true
}

// unwritten returns an error if a drain could not write the ends of all turns.
func (r *roster) unwritten() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.drain.ends[outcomeLost]; n > 0 {
		return fmt.Errorf("worker: the ends of %d turns could not be written; other workers run them again when their leases have expired", n)
	}
	return nil
}

// counted returns how many sessions were recovered so far.
func (r *roster) counted() recovered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recovered
}

// recovered counts the sessions that a worker has claimed after their turns were interrupted, by a
// drain or by their worker's death. Messages that were archived because they killed workers are not
// counted.
type recovered struct {
	Resumed   int // with a mark: they continued in the same transcript
	Suspended int // they began a new transcript
}
